"""Batch APIs: a provider answers many requests within a day, at a part of the price.

A batch is sent as a whole, and its results are read when it has ended. They come in any order, and
some may be missing; each names its request.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Json, ModelReply
from archytas_nb.loop.stop import sleep
from archytas_nb.models.completion import ServerError, mapping, string
from archytas_nb.models.published import BATCH_PRICE
from archytas_nb.models.refusals import EndpointErrors
from archytas_nb.models.sse import parsed


class Endpoint(Protocol):
    """The parts of a model that a batch API needs: those of `RemoteModel`."""

    base_url: str
    errors: EndpointErrors

    @property
    def name(self) -> str:
        """The model's name."""

    def fetched(
        self, opened: Callable[[Any, Any], Any], *, most_bytes: int | None = ...
    ) -> Iterator[bytes]:
        """The body of a response."""

    def post_of(self, ask: AskModel) -> Any:
        """A request as it is sent."""

    def reply_in(self, text: str, ask: AskModel, share: float = 1.0) -> ModelReply:
        """The reply in a body."""


MOST_BYTES = 25_000_000
"""Maximum size of the requests of a batch: less than providers accept, for a fast upload."""
_MOST_RESULT_BYTES = 1_000_000_000
_MOST_LINE_BYTES = 64_000_000
_NAME = "archytas_nb"  # of the metadata by which a batch is found again
_LISTED = 100  # batches
_FILE_WAITS = (0.5, 2.0)  # seconds until a file is looked for again
_HAS_ENDED = frozenset({"completed", "expired", "cancelled", "canceled", "failed"})
_ENDS = ("completed_at", "expired_at", "cancelled_at", "failed_at")
_ABOUT_KEY = frozenset({"auth", "rate_limit"})  # kinds of errors that tell nothing of the API


class Job(NamedTuple):
    """A batch at a provider.

    Attributes:
        id: The provider's name for it.
        state: ``"ended"`` if there are results, also of a batch that was cancelled or has expired;
            ``"failed"`` if it was not accepted and nothing was answered.
        done: The number of its requests that were processed.
        total: The number of its requests.
        files: The files that belong to it.
        results: The files with results.
        error: Why it failed.
        faulty: The lines, from 1, that are the reason.
        was_cancelled: Whether it was cancelled before all requests were answered.
    """

    id: str
    state: Literal["running", "cancelling", "ended", "failed"]
    done: int = 0
    total: int = 0
    files: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    error: ModelError | None = None
    faulty: tuple[int, ...] = ()
    was_cancelled: bool = False


Outcome = ModelReply | ModelError
"""The result of a request; an error that is `passing` does not speak against sending it again."""


class BatchApi(ABC):
    """The batch API of an endpoint.

    Attributes:
        share: The part of the ordinary price that a request costs.
        most_requests: Maximum number of requests of a batch.
        finds: Whether a batch can be found by the name that it was sent with.
    """

    share = BATCH_PRICE
    most_requests = 0
    finds = False

    def __init__(self, model: Endpoint) -> None:
        self._model = model

    # ── the API of a provider ─────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _api(self, client: Any) -> Any:
        """The part of the provider's client that handles batches."""

    @abstractmethod
    def _job(self, data: Mapping[str, Any]) -> Job:
        """A batch as the provider describes it."""

    @abstractmethod
    def submit(self, name: str, asks: Mapping[str, AskModel]) -> Job:
        """Send a batch.

        Args:
            name: A name by which it can be found again, if the endpoint `finds` it.
            asks: The requests, by their names of at most 64 letters and digits.

        Raises:
            ModelError: It was not accepted; unless the error is `may_be_paid`, there is no batch.
        """

    @abstractmethod
    def results(self, job: Job, asks: Mapping[str, AskModel]) -> Iterator[tuple[str, Outcome]]:
        """The results of a batch that has ended, with the names of the requests.

        Args:
            job: The batch.
            asks: The requests as they were sent, if they are known.

        Raises:
            ModelError: They cannot be read.
        """

    @abstractmethod
    def forget(self, job: Job) -> None:
        """Delete what the provider stores of a batch whose results were read."""

    # ── what is common ────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Raise ConfigurationError if the endpoint has no batch API, or ModelError if it fails."""
        try:
            self._listed(1)
        except ModelError as error:
            status = error.status or 0
            if error.kind in _ABOUT_KEY or not (200 <= status < 500 or status == 501):
                raise
            raise ConfigurationError(
                f"the endpoint {self._model.base_url!r} has no batch API: {error} Leave out "
                "when='batch' (%agent_map --when batch) to send the rows immediately"
            ) from None

    def find(self, name: str) -> Job | None:
        """The batch that was sent with a name; None if there is none, or it cannot be found."""
        if not self.finds:
            return None
        for each in self._listed(_LISTED):
            if mapping(mapping(each).get("metadata")).get(_NAME) == name:
                return self._job(mapping(each))
        return None

    def look(self, id_: str) -> Job:
        """How far a batch is; raises `ModelError`, of the kind ``"not_found"`` if it is gone."""
        return self._job(self._read(lambda api, **given: api.retrieve(id_, **given)))

    def cancel(self, id_: str) -> None:
        """Ask the provider to answer no further requests of a batch."""
        self._read(lambda api, **given: api.cancel(id_, **given))

    def _listed(self, number: int) -> list[Any]:
        data = self._read(lambda api, **given: api.list(limit=number, **given))
        listed = data.get("data")
        if not isinstance(listed, list):
            raise self._model.errors.unusable(
                "sent something that is not a list of batches", kind="not_found"
            )
        return listed

    def _read(self, call: Callable[..., Any]) -> dict[str, Any]:
        """The object that the endpoint sends for a call of the API."""

        def opened(client: Any, timeouts: Any) -> Any:
            return call(self._api(client).with_streaming_response, timeout=timeouts)

        return self._object(b"".join(self._model.fetched(opened)))

    def _object(self, body: bytes) -> dict[str, Any]:
        data = parsed(body.decode("utf-8", "replace").strip())
        if not isinstance(data, dict):
            raise self._model.errors.unusable("sent something that is not a batch")
        return data

    def _lines(self, opened: Callable[[Any, Any], Any]) -> Iterator[dict[str, Any]]:
        """The objects of a file with one in each line; any other line is left out."""
        rest = b""
        for chunk in self._model.fetched(opened, most_bytes=_MOST_RESULT_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _MOST_LINE_BYTES:
                raise self._model.errors.unusable("sent a line of results that is too long")
            yield from map(_line, lines)
        yield _line(rest)

    def _failed(self, status: int, body: Any) -> ModelError:
        """The error of a single request, which a status of 0 leaves open."""
        text = json.dumps(body)
        said = ServerError.from_response(status or 503, text, {}, "")
        error = self._model.errors.of_server(said, self._model.name)
        if not 400 <= status < 600:
            error.passing = True
        return error


def _line(line: bytes) -> dict[str, Any]:
    return mapping(parsed(line.decode("utf-8", "replace").strip()))


def size_of(ask: AskModel) -> int:
    """The size of a request in bytes, about."""
    return len(json.dumps([list(ask.messages), list(ask.tools), ask.schema], default=str))


_NO_ASK = AskModel(1, ())


# ── OpenAI and compatible endpoints ───────────────────────────────────────────────────────────────


class OpenAIBatches(BatchApi):
    """The batch API of OpenAI, which other providers have, too: requests and results are files."""

    most_requests = 50_000
    finds = True

    def _api(self, client: Any) -> Any:
        return client.batches

    def submit(self, name: str, asks: Mapping[str, AskModel]) -> Job:
        """Upload the requests, and send them as a batch."""
        posts = {each: self._model.post_of(ask) for each, ask in asks.items()}
        path = next(f"/v1{post.path}" for post in posts.values())
        lines = [
            {"custom_id": each, "method": "POST", "url": f"/v1{post.path}", "body": post.body}
            for each, post in posts.items()
        ]
        content = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        file = (f"{name}.jsonl", content.encode("utf-8", "surrogatepass"), "application/jsonl")

        def upload(client: Any, timeouts: Any) -> Any:
            files = client.files.with_streaming_response
            return files.create(file=file, purpose="batch", timeout=timeouts)

        try:
            uploaded = self._object(b"".join(self._model.fetched(upload)))
        except ModelError as error:
            # A file alone costs nothing.
            error.may_be_paid = False
            raise
        file_id = string(uploaded.get("id"))
        for wait in (*_FILE_WAITS, None):
            try:
                return self._created(file_id, path, name)
            except ModelError as error:
                if wait is None or error.status not in (400, 404):
                    raise
            # A file is not always found immediately after its upload.
            sleep(wait)
        raise AssertionError

    def _created(self, file_id: str, path: str, name: str) -> Job:
        """The batch of a file."""
        return self._job(
            self._read(
                lambda api, **given: api.create(
                    input_file_id=file_id,
                    endpoint=path,
                    completion_window="24h",
                    metadata={_NAME: name},
                    **given,
                )
            )
        )

    def _job(self, data: Mapping[str, Any]) -> Job:
        status = string(data.get("status")).lower()
        has_ended = status in _HAS_ENDED or any(data.get(each) for each in _ENDS)
        results = tuple(filter(None, (data.get("output_file_id"), data.get("error_file_id"))))
        input_file = data.get("input_file_id")
        counts = mapping(data.get("request_counts"))
        done, failed, total = (
            each if isinstance(each := counts.get(name), int) else 0
            for name in ("completed", "failed", "total")
        )
        job = Job(
            string(data.get("id")), "running", done + failed, total,
            files=(*([str(input_file)] if input_file else ()), *map(str, results)),
            results=tuple(map(str, results)),
            was_cancelled=status in ("cancelled", "canceled"),
        )  # fmt: skip
        if status == "failed" and not results:
            return self._refused(job, mapping(data.get("errors")).get("data"))
        if has_ended:
            return job._replace(state="ended")
        return job._replace(state="cancelling") if status == "cancelling" else job

    def _refused(self, job: Job, errors: Json) -> Job:
        listed = [mapping(each) for each in errors] if isinstance(errors, list) else []
        said = next((each for each in listed if each.get("message")), {})
        lines = {each["line"] for each in listed if isinstance(each.get("line"), int)}
        error = self._failed(400, {"error": said or {"message": "the batch failed"}})
        return job._replace(state="failed", error=error, faulty=tuple(sorted(lines)))

    def results(self, job: Job, asks: Mapping[str, AskModel]) -> Iterator[tuple[str, Outcome]]:
        """The results in the files of a batch."""
        for file in job.results:
            for line in self._lines(partial(_content, file)):
                name = string(line.get("custom_id"))
                if name:
                    yield name, self._outcome(line, asks.get(name, _NO_ASK))

    def _outcome(self, line: Mapping[str, Any], ask: AskModel) -> Outcome:
        response = mapping(line.get("response"))
        status, body = response.get("status_code"), response.get("body")
        status = status if isinstance(status, int) else 0
        if 200 <= status < 300:
            try:
                return self._model.reply_in(json.dumps(body), ask)
            except ModelError as error:
                return error
        reason = body or line.get("error") or "the batch has no result for it"
        return self._failed(status, reason if isinstance(reason, str) else {"error": reason})

    def forget(self, job: Job) -> None:
        """Delete the files of a batch."""
        for file in job.files:
            b"".join(self._model.fetched(partial(_deletion, file)))


def _content(file: str, client: Any, timeouts: Any) -> Any:
    return client.files.with_streaming_response.content(file, timeout=timeouts)


def _deletion(file: str, client: Any, timeouts: Any) -> Any:
    return client.files.with_streaming_response.delete(file, timeout=timeouts)


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────


class AnthropicBatches(BatchApi):
    """Anthropic's Message Batches."""

    most_requests = 100_000

    def __init__(self, model: Endpoint, statuses: Mapping[str, int]) -> None:
        """`statuses` are the HTTP statuses of the types of errors."""
        super().__init__(model)
        self._statuses = statuses

    def _api(self, client: Any) -> Any:
        return client.messages.batches

    def submit(self, name: str, asks: Mapping[str, AskModel]) -> Job:  # noqa: ARG002 - no names
        """Send the requests as a batch."""
        requests = [
            {"custom_id": each, "params": self._model.post_of(ask).body}
            for each, ask in asks.items()
        ]
        return self._job(self._read(lambda api, **given: api.create(requests=requests, **given)))

    def _job(self, data: Mapping[str, Any]) -> Job:
        counts = {
            name: each
            for name, each in mapping(data.get("request_counts")).items()
            if isinstance(each, int)
        }
        total = sum(counts.values())
        status = string(data.get("processing_status"))
        return Job(
            string(data.get("id")),
            {"ended": "ended", "canceling": "cancelling"}.get(status, "running"),  # type: ignore[arg-type]
            total - counts.get("processing", 0),
            total,
            was_cancelled=bool(counts.get("canceled")),
        )

    def results(self, job: Job, asks: Mapping[str, AskModel]) -> Iterator[tuple[str, Outcome]]:
        """The results of a batch."""

        def opened(client: Any, timeouts: Any) -> Any:
            return self._api(client).with_streaming_response.results(job.id, timeout=timeouts)

        for line in self._lines(opened):
            name = string(line.get("custom_id"))
            if name:
                yield name, self._outcome(mapping(line.get("result")), asks.get(name, _NO_ASK))

    def _outcome(self, result: Mapping[str, Any], ask: AskModel) -> Outcome:
        if result.get("type") == "succeeded":
            try:
                return self._model.reply_in(json.dumps(result.get("message")), ask, self.share)
            except ModelError as error:
                return error
        said = mapping(mapping(result.get("error")).get("error"))
        status = self._statuses.get(string(said.get("type")), 0)
        return self._failed(status, {"error": said or {"message": f"it is {result.get('type')}"}})

    def forget(self, job: Job) -> None:
        """Delete a batch."""
        self._read(lambda api, **given: api.delete(job.id, **given))
