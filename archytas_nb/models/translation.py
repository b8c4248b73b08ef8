"""The client's exceptions → faults, without the key that some servers say back.

Law of this file: it knows those exceptions by their names, so that it imports no client.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import urllib.parse
from collections.abc import Iterable

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel
from archytas_nb.models import faults
from archytas_nb.models.address import shown_url
from archytas_nb.models.asking import Faulted
from archytas_nb.models.images import images_in
from archytas_nb.models.reading import Refused
from archytas_nb.models.refusal import ErrorInReply, told_by
from archytas_nb.models.secrets import replaced, without_shapes

CONNECT_SECONDS = 10.0
"""How long a connection may take to come about."""


_LOOKED_AT = 20_000
"""Characters of what a server says that are looked at; it may say a million."""

_HALF = 10
"""Characters of a key that are not shown either; fewer may be what all keys of a kind begin with."""
_LONG = 16
"""Characters of the shortest header or query value that is taken for a secret; 'api-version' has ten."""


class Translator:
    """Puts what went wrong at an endpoint into words.

    Args:
        at: The endpoint, as it may be shown.
        key: What must not be shown; empty for none.
        user: The name and password of the URL, of which the password must not be shown either.
        others: What must not be shown either where it is long enough to be a secret.
    """

    def __init__(
        self, at: str, key: str, user: tuple[str, str] | None = None, others: Iterable[str] = ()
    ) -> None:
        self._at = at
        basic = base64.b64encode(":".join(user).encode()).decode() if user else ""
        long = [each for each in others if len(each) >= _LONG]
        self._secrets = [each for each in (key, basic, user[1] if user else "", *long) if each]

    def clean(self, text: str) -> str:
        """The beginning of a server's text, without secrets; a text that was cut may end with half of one."""
        text = text[:_LOOKED_AT]
        for secret in self._secrets:
            text = replaced(text, secret, "…")
            for length in range(len(secret) - 1, _HALF - 1, -1):
                text = text.replace(secret[:length], "…")
        return without_shapes(text)

    def client(
        self, error: Exception, timeout: float, model: str, ask: AskModel | None = None
    ) -> Faulted:
        """The fault behind an exception of the client.

        Args:
            error: An ``openai.OpenAIError``, or a `Refused`.
            timeout: Seconds of silence that the request was allowed.
            model: The model's name in the request.
            ask: The request; None for the list of models.
        """
        kinds = {each.__name__ for each in type(error).__mro__}
        cause = error.__cause__ or error
        for each in (error, cause):  # some versions of the client let it through as it is
            if isinstance(each, Refused):
                return self._status(each, model, ask)
        connecting = "Connect" in type(cause).__name__
        if "APITimeoutError" in kinds:
            seconds = min(CONNECT_SECONDS, timeout) if connecting else timeout
            return Faulted(
                faults.timed_out(
                    self._at, seconds, during="connect" if connecting else "first byte"
                )
            )
        why = self.clean(f"{type(cause).__name__}: {cause}")
        if "APIConnectionError" in kinds:
            return Faulted((faults.unreachable if connecting else faults.dropped)(self._at, why))
        text = f"the request to {self._at!r} failed: {faults.shortened(why)}. Look at the server's log."
        return Faulted(faults.Fault(ModelError(text, kind="server")))

    def refusal(self, error: ErrorInReply, model: str, ask: AskModel) -> Faulted:
        """The fault behind an error object that came in the place of a reply."""
        return self._told(error.status, str(error), error.codes, model, ask)

    def _status(self, error: Refused, model: str, ask: AskModel | None) -> Faulted:
        if 300 <= error.status < 400 and "location" in error.headers:
            to = shown_url(urllib.parse.urljoin(error.url, error.headers["location"]))
            return Faulted(
                faults.redirected(self._at, to.removesuffix("/chat/completions"), error.status)
            )
        try:
            said, codes = told_by(json.loads(error.body))
        except (ValueError, RecursionError):
            said, codes = "", ""
        wait = faults.retry_after(error.headers, dt.datetime.now(dt.UTC))
        return self._told(error.status, said or error.body, codes, model, ask, wait)

    def _told(
        self,
        status: int,
        said: str,
        codes: str,
        model: str,
        ask: AskModel | None,
        wait: float | None = None,
    ) -> Faulted:
        return Faulted(
            faults.for_status(
                status,
                self.clean(said),
                self._at,
                model,
                asked_with_tools=bool(ask and ask.tools),
                asked_with_images=bool(ask and images_in(ask.messages)),
                codes=self.clean(codes),
                wait=wait,
            )
        )
