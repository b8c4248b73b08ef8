"""The magics about the conversations of a notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, magics_class
from IPython.core.magic_arguments import argument

from archytas_nb.conversation import History
from archytas_nb.magics.after import AfterRuns
from archytas_nb.magics.line import line_magic_with
from archytas_nb.magics.overview import NO_QUESTIONS, TextResult
from archytas_nb.magics.settings import SettingTraits
from archytas_nb.magics.shown import (
    cassette_state,
    changes,
    history,
    never_used,
    why,
    why_file,
)
from archytas_nb.namespace import cells_of
from archytas_nb.words import count

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette

_NAMES_CALL = re.compile(r"\S+#[0-9a-f]{4}")  # as `ApprovalForm.name` is
_UNWATCHED = (
    "the extension did not watch what the last question changed: before the next one, use "
    "--python undoable, or set %config ArchytasNB.undo = True"
)


@magics_class
class ConversationMagics(Magics):
    """Magics about the conversations of this notebook."""

    shell: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.history = History()
        self.after = AfterRuns(self.history)

    @line_magic_with(
        argument(
            "--sent",
            nargs="?",
            const="",
            metavar="N",
            help="Show each request that this kernel sent to a model, with its size; with N, the "
            "body of that one, byte for byte. Keys are not in a body. Requests of a model in a "
            "variable that is a class of your own are not listed.",
        )
    )
    def agent_history(self, args: Any) -> Any:
        """Show the questions and answers of this conversation, and what they cost.

        The cost is that of the last question, the conversation and the kernel: requests, tokens,
        model seconds and, if prices are known, USD. Questions that were undone or replaced are
        included.
        """
        if args.sent is None:
            asked = self.history
            return history(asked.exchanges, asked.runs, asked.paid(), asked.last)
        from archytas_nb.magics.sent import request_text, requests_table

        return request_text(args.sent) if args.sent else requests_table()

    @line_magic_with(
        argument(
            "--force",
            action="store_true",
            help="Undo also what you changed or used since, which is kept otherwise.",
        ),
        argument(
            "--redo",
            action="store_true",
            help="Bring back what was undone; possible until the next question.",
        ),
    )
    def agent_undo(self, args: Any) -> Any:
        """Remove the last question, and undo what it changed in variables and files.

        Changes are undone if they were watched: if the option or setting python is ask or undoable,
        or the setting undo is on. What you changed or used since is kept and listed, and so is what
        could not be restored. After an undo that kept something, --force undoes that, too.
        """
        if self.history.is_running:
            raise UsageError("a question is being answered; undo it when that has ended")
        if args.redo and args.force:
            raise UsageError("--redo and --force exclude each other: choose one")
        if args.redo:
            back = self.history.bring_back()
            if back is None:
                return TextResult("nothing to redo: nothing was undone since the last question")
            lines = self.after.redone(back)
            return TextResult("\n".join([f"brought back: {back.question}", *lines]))
        last = self.history.removed[-1] if self.history.removed else None
        if args.force and last is not None and last.asked is not None and last.asked.kept:
            return TextResult("\n".join(self.after.undone(last, force=True)))
        last = self.history.forget_last()
        if last is None:
            return TextResult(f"nothing to undo: {NO_QUESTIONS}")
        lines = self.after.undone(last, force=args.force)
        return TextResult("\n".join([f"removed: {last.question}", *lines]))

    @line_magic_with(
        argument(
            "name",
            nargs="?",
            help="A variable, or the path of a file: by what it was created or changed.",
        )
    )
    def agent_why(self, args: Any) -> Any:
        """Show what the last question changed, or by what a variable or a file was changed.

        Of a variable it shows the questions, and the cells before them, that created or changed it;
        of a file the questions that created, changed or deleted it.
        """
        if args.name is None:
            last = self.history.last
            if last is None:
                return TextResult(NO_QUESTIONS)
            if not (last.is_watched or last.diff or last.effects):
                return TextResult(_UNWATCHED)
            return changes(last.diff, last.effects)
        from archytas_nb.tools.variables import user_names
        from archytas_nb.words import did_you_mean

        known = why(args.name, self.history.past, cells_of(self.shell), self.shell)
        if known is None:
            known = why_file(args.name, self.history.past)
        if known is None:
            guess = did_you_mean(args.name, user_names(self.shell.user_ns))
            raise UsageError(
                f"no variable is named {args.name!r}{guess}; no question changed such a file"
            )
        return TextResult(known)

    @line_magic_with(
        argument(
            "file",
            nargs="?",
            help="Write a notebook (.ipynb), a script (.py) or a test (test_….py) with the cells "
            "that the code needs; by default, the code is put into the next cell.",
        ),
        argument(
            "--runs",
            default="last",
            metavar="last|all|N|N..M",
            help="Which questions: the last one, all, or those of the cells with these numbers.",
        ),
        argument(
            "--as",
            dest="name",
            metavar="NAME",
            help="Make a tool of this name: literals of the question become its parameters. --as "
            "skill NAME writes the code, if it is proved, as a skill with its test into "
            ".agents/skills/NAME.",
        ),
        argument(
            "--force",
            action="store_true",
            help="Replace a file that this did not write, or that was edited since.",
        ),
    )
    def agent_code(self, args: Any) -> Any:
        """Write the last question, or map with a program, as code that calls your functions.

        No model is asked.

        The code is run from the state before the question, in a transaction that is undone, and its
        values are compared with those of the run.
        """
        from archytas_nb.magics.code import write_code

        return write_code(
            self.shell, self.history, args.file, args.runs, args.name, force=args.force
        )

    @line_magic_with(
        argument(
            "--runs",
            default="all",
            metavar="last|all|N|N..M",
            help="Which questions: all, the last one, or those of the cells with these numbers.",
        ),
        argument(
            "--strict",
            action="store_true",
            help="Fail if an answer no longer holds, for tests.",
        ),
    )
    def agent_check(self, args: Any) -> Any:
        """Show which answers still hold; no model is asked.

        An answer holds if nothing that its calls read has changed, or if its code gives the same
        values again; that runs in a transaction, which is undone.
        """
        from archytas_nb.magics.code import check_answers

        return check_answers(self.shell, self.history, args.runs, strict=args.strict)

    @line_magic_with(
        argument("path", help="The file; {name} is replaced with the value of a variable."),
        argument(
            "--force",
            action="store_true",
            help="Replace a file that this did not write, or that was edited since.",
        ),
    )
    def agent_save(self, args: Any) -> Any:
        """Save this conversation in a file of JSON, for %agent_load.

        It holds questions, calls, their results as text and answers, with secrets masked; no
        variables.
        """
        from archytas_nb.magics.expand import expand
        from archytas_nb.memory import save_conversation

        exchanges = self.history.exchanges
        if not exchanges:
            raise UsageError(f"nothing to save: {NO_QUESTIONS}")
        path = expand(args.path, self.shell.user_ns).text
        save_conversation(path, exchanges, force=args.force)
        return TextResult(f"saved in {path}: {count(len(exchanges), 'question')}")

    @line_magic_with(
        argument("path", help="The file; {name} is replaced with the value of a variable.")
    )
    def agent_load(self, args: Any) -> Any:
        """Continue a conversation that %agent_save or Agent.save has saved.

        It takes the place of this conversation, also in another kernel. Variables are not saved:
        the model is told which results are no longer there. Reading the file runs no code.
        """
        from archytas_nb.magics.expand import expand
        from archytas_nb.memory import load_conversation

        if self.history.is_running:
            raise UsageError("a question is being answered; load when that has ended")
        path = expand(args.path, self.shell.user_ns).text
        exchanges = load_conversation(path, self.shell.user_ns.keys())
        self.history.load(exchanges)
        return TextResult(f"loaded: {count(len(exchanges), 'question')}")

    @line_magic_with(
        argument("decision", choices=("run", "refuse", "stop"), help="What to do with the call."),
        argument(
            "words",
            nargs="*",
            metavar="CALL REASON",
            help="The call, as the page names it when its buttons are gone (drop_rows#3fa1), and "
            "why it is refused, for the model. Only run needs the name.",
        ),
    )
    def agent_answer(self, args: Any) -> Any:
        """Decide about a call that waits for you, from a console on a subshell.

        It does the same as the buttons of the form, which are gone if the page was reloaded. It
        does nothing if another call waits than the one that you name.
        """
        from archytas_nb.trace.controls import decide, waiting

        words = list(args.words)
        named = ""
        if words and (args.decision == "run" or _NAMES_CALL.fullmatch(words[0])):
            named = words.pop(0)
        if args.decision != "refuse" and words:
            raise UsageError(f"{' '.join(words)!r}: only refuse takes a reason")
        form = decide(args.decision, named, " ".join(words))
        if form is not None:
            return TextResult(f"decided: {args.decision} {form.name}")
        form = waiting()
        if form is None:
            raise UsageError("no call waits for your decision")
        what = f"{named!r} does not wait" if named else "nothing was done"
        raise UsageError(
            f"{what}; this call does: {form.name}\n{form.text}\n"
            f"To run it: %agent_answer run {form.name}"
        )

    @line_magic_with(
        argument(
            "path", nargs="?", help="The file; {name} is replaced with the value of a variable."
        ),
        argument(
            "--mode",
            type=SettingTraits.cassette_mode.read,
            choices=SettingTraits.cassette_mode.values,
            help="auto: replay what is recorded, record what is missing.",
        ),
        argument("--volatile", help="What may differ between runs, such as date,path."),
        argument(
            "--force",
            action="store_true",
            help="With --mode record: replace a file that is not a cassette, too.",
        ),
        argument(
            "--prune",
            action="store_true",
            help="Remove the exchanges that this kernel has not used. They are listed and you are "
            "asked first; if nobody can be asked, they are removed.",
        ),
    )
    def agent_cassette(self, args: Any) -> Any:
        """Record the replies of models in a file, and replay them; or show the file that is in use.

        Such a file is a cassette. ``%agent_cassette PATH`` replays it from its beginning, and
        records the replies that are missing; without a path, the state of the current one is shown.
        In a test run (``pytest --agent-replay``), the notebook only replays.
        """
        from archytas_nb.cassettes.switch import cassette_in_use, insert_cassette
        from archytas_nb.magics.expand import expand

        if args.path:
            path = expand(args.path, self.shell.user_ns).text
            volatile = [args.volatile] if args.volatile else ()
            insert_cassette(path, args.mode, volatile, force=args.force)
        elif args.mode == "off":
            insert_cassette("", "off")
        elif args.mode or args.volatile:
            raise UsageError("specify the cassette: %agent_cassette PATH --mode MODE")
        cassette = cassette_in_use()
        if args.prune:
            if cassette is None:
                raise UsageError("no cassette is in use; set one with %agent_cassette PATH")
            if not _may_prune(cassette):
                return TextResult("nothing was removed")
            if not cassette.prune():
                return TextResult("nothing to remove: this kernel has used every recording")
        elif args.path or args.mode:
            return None
        return cassette_state(cassette)


def _may_prune(cassette: Cassette) -> bool:
    """Say what would be removed from a cassette, and ask whether it may be; yes if nobody can."""
    from archytas_nb.cassettes.switch import note_uses
    from archytas_nb.kernel.person import Keyboard, confirm
    from archytas_nb.trace.controls import Controls

    note_uses(cassette)
    found = never_used(cassette)
    if not found or cassette.mode == "replay":  # for which there is an error
        return True
    if Keyboard().there:
        return confirm(f"{found}\nRemove from the cassette?", Controls(Keyboard())) is True
    print(f"removed from the cassette:\n{found}")  # noqa: T201 - for the person who reads it later
    return True
