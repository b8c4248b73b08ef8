"""`Agent.map` and `Agent.evaluate`: questions by the thousand, with the settings of one agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from archytas_nb.errors import users_frames

if TYPE_CHECKING:
    from archytas_nb.batch.evaluate import Evaluation
    from archytas_nb.batch.map import Plan

STORE = "cassettes/map.sqlite"


class AsksMany:
    """The methods of an agent that ask about many rows; its conversation stays as it is."""

    def _settings(self) -> dict[str, Any]:
        """The arguments that make such an agent, without its conversation."""
        raise NotImplementedError

    @users_frames
    def map(
        self,
        data: Any,
        prompt: str,
        *,
        type: Any = None,  # noqa: A002 - as in %agent --type
        workers: int = 8,
        budget: float | str | None = None,
        rpm: float | None = None,
        executor: Any = None,
        store: str | None = STORE,
        progress: bool = True,
    ) -> Any:
        """Ask about every row of a column or a frame, each in a conversation of its own.

        Equal rows are asked about once. Results are kept in a file: after an interrupt, a crash or
        a spent budget the same call goes on, asks about the open and the failed rows, and asks
        nothing about the others. A replay (``pytest --agent-replay``) takes all from the file.

        Tools marked ``pure`` run on the workers' threads, the others one after another on the
        calling thread. A tool that wants approval is approved once, before the first row.

        Args:
            data: A Series or DataFrame of pandas or polars, or a list.
            prompt: What to do with each row. ``{column}`` stands for a value of the row; without
                one the whole row stands below the prompt.
            type: What each answer must be: a type, whose fields become columns; None takes text.
            workers: How many rows are asked about at the same time.
            budget: The most that may be spent, such as ``"3 USD"`` or ``"500000 tokens"``, all
                calls with these rows and this file together.
            rpm: Maximum number of requests per minute.
            executor: Runs the rows in place of threads of this process: any
                `concurrent.futures.Executor`, such as that of a Dask cluster.
            store: The file; None keeps nothing.
            progress: Whether to show how far it is.

        Returns:
            A DataFrame with the index of the data: the fields of the type (or ``answer``),
            ``status`` (``"done"``, ``"failed"``, ``"open"``), ``error``, ``tokens``, ``cost`` in
            USD, ``seconds``. For a list, a list of dicts. An interrupt gives what is done so far.

        Raises:
            ConfigurationError: No row can be asked about: no model, no price for a budget in USD,
                a tool that cannot work in a map, a file that cannot be written.
            ModelError: The endpoint failed before any row was done.
            ValueError: An argument is not of the kind said above.
        """
        from archytas_nb.batch.map import Plan

        plan = Plan(type, workers, budget, rpm, executor, store, **_shown(progress))
        return mapped(self, data, prompt, plan)

    @users_frames
    def evaluate(
        self,
        cases: Iterable[Any],
        *,
        runs: int = 5,
        models: Sequence[Any] = (),
        type: Any = None,  # noqa: A002 - as in %agent --type
        workers: int = 8,
        budget: float | str | None = None,
        store: str | None = STORE,
        progress: bool = True,
    ) -> Evaluation:
        """Ask each question several times, and count how often the answer is right.

        Args:
            cases: A tuple ``(question, expected)`` or ``(question, expected, check)`` for each
                case. The check is called with the answer and what is expected and returns whether
                it passes; without one a text must contain what is expected, whatever the case of
                its letters, and a typed value must be equal to it.
            runs: How often each question is asked.
            models: Models to compare; empty for the agent's own.
            type: What each answer must be; None takes text.
            workers: How many questions are asked at the same time.
            budget: The most that each model may cost; as in `map`.
            store: The file that keeps the answers, as in `map`; None keeps nothing.
            progress: Whether to show how far it is.

        Returns:
            The pass rates with their 95 % intervals, tokens and cost, by case and in all.

        Raises:
            ConfigurationError, ModelError: As in `map`.
            ValueError: A case or an argument is not of the kind said above.
        """
        from archytas_nb.batch.evaluate import evaluate
        from archytas_nb.batch.map import Plan

        plan = Plan(type, workers, budget, store=store, **_shown(progress))
        return evaluate(self._settings(), list(cases), runs, list(models), plan)


def mapped(agent: AsksMany, data: Any, prompt: str, plan: Plan) -> Any:
    """Ask about every row as planned; as `Agent.map`."""
    from archytas_nb.batch.map import ask_all
    from archytas_nb.batch.rows import Rows, fields_of

    fields_of(plan.output_type)
    rows = Rows.of(data)
    found, values = ask_all(agent._settings(), rows.questions(prompt), plan)  # noqa: SLF001
    return rows.result(found, values, plan.output_type)


def _shown(progress: bool) -> dict[str, Any]:  # noqa: FBT001
    if not progress:
        return {}
    from archytas_nb.progress import Progress

    return {"show": Progress().show}
