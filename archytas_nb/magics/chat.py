"""``%agent_chat``: the conversation of this notebook in a chat panel."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.magics.line import arguments, parser_of, with_options, without_frames
from archytas_nb.magics.overview import TextResult

if TYPE_CHECKING:
    from archytas_nb.chat.listener import ChatListener, End, Talk
    from archytas_nb.files import Held
    from archytas_nb.kernel.main_thread import MainThread
    from archytas_nb.magics.agent import ArchytasNB
    from archytas_nb.run import Run


@magics_class
class ChatMagics(Magics):
    """Whether this notebook is open to a chat."""

    magics_of_agent: ArchytasNB

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._listener: ChatListener | None = None
        self._registered: Held | None = None

    @no_var_expand
    @with_options(
        argument(
            "action",
            nargs="?",
            choices=("on", "off"),
            help="on: let a chat on this machine continue the conversation of this notebook; off: "
            "end that. Without it, show which.",
        ),
        argument(
            "--model",
            metavar="NAME",
            help="The model of the questions in the chat, or the variable that holds it; by "
            "default the configured one.",
        ),
    )
    @line_magic
    def agent_chat(self, line: str) -> Any:
        """Continue the conversation of this notebook in a chat program, such as jupyter-ai's.

        A chat that speaks the Agent Client Protocol, such as that of jupyter-ai, starts python -m
        archytas_nb acp, which finds this kernel. What is asked there runs between two cells and is
        shown below the cell that ran %agent_chat on; calls that require approval are approved
        there.
        """
        __tracebackhide__ = True
        args = arguments(parser_of(self.agent_chat), line)
        if args is None:
            return None
        try:
            match args.action:
                case "on":
                    return self._on(args.model)
                case "off":
                    return self._off()
            if self._listener is None or not self._listener.is_open:
                return TextResult("no chat can connect; %agent_chat on allows it")
            return TextResult("a chat can connect; %agent_chat off ends that")
        except (ArchytasError, KeyboardInterrupt) as error:
            raise without_frames(error) from None

    def unload(self) -> None:
        """Stop listening."""
        self._off()

    def _on(self, name: str | None) -> TextResult:
        from archytas_nb.chat.listener import KIND, ChatListener
        from archytas_nb.kernel.main_thread import MainThread
        from archytas_nb.kernel.registered import register, remove_dead

        try:
            main = MainThread()
        except RuntimeError:
            raise UsageError(
                "a chat needs a Jupyter kernel, where work can run between two cells: use "
                "JupyterLab, or jupyter console in a terminal"
            ) from None
        model = self.magics_of_agent.choose_model(name)  # now, while the person can be asked
        self._off()  # run again, the answers are shown below this cell
        try:
            listener = ChatListener(ChatNotebook(self.magics_of_agent, main, name))
            self._listener = listener
            remove_dead(KIND)
            self._registered = register(KIND, listener.url, listener.token)
            listener.start()
        except OSError as error:
            self._off()
            raise ConfigurationError(f"this notebook cannot listen for a chat: {error}") from None
        except BaseException:  # nothing stays open that was not announced
            self._off()
            raise
        return TextResult(
            f"open to a chat, with {model}: in the chat of JupyterLab (jupyter-ai 3), mention "
            "@Notebook; other programs start: python -m archytas_nb acp"
        )

    def _off(self) -> TextResult:
        listener = self._listener
        self._listener = None
        if listener is None:
            return TextResult("no chat could connect, so there is nothing to end")
        listener.stop()
        if self._registered is not None:
            self._registered.remove()
            self._registered = None
        return TextResult("no chat can connect now")


class ChatNotebook:
    """The notebook as a chat sees it.

    Args:
        magics: The settings and the conversation of the notebook.
        main: The main thread of the kernel.
        model: The model, as after ``--model``; None for the configured one.
    """

    def __init__(self, magics: ArchytasNB, main: MainThread, model: str | None) -> None:
        self._magics = magics
        self._main = main
        self._model = model

    def ask(self, question: str, talk: Talk) -> Future[End]:
        """Ask between two cells."""
        return self._main.submit(partial(self._run, question, talk))

    def interrupt(self, future: Future[Any]) -> None:
        """Interrupt a question that is being answered."""
        self._main.interrupt(future)

    def _run(self, question: str, talk: Talk) -> End:
        from archytas_nb.chat.listener import ended
        from archytas_nb.kernel.person import person_elsewhere

        def ask() -> Run:
            return self._magics.ask_from_chat(question, self._model, talk.on_event)

        before = person_elsewhere.set(talk)
        try:
            return ended(ask)
        except UsageError as error:
            return "failed", str(error)
        finally:
            person_elsewhere.reset(before)
