"""The grammar of the programs of a small model, in GBNF, made from its tools.

It is the part of Python that such a model writes well: assignments, calls, conditions and loops,
without definitions and imports. A tool is called with its own parameters, all required ones among
them, and, where there are only some legal values, with one of these or with a variable. Line by
line, a name in an expression is one that is bound; in a comprehension, which binds names behind
their use, it is any.

In the rules below, ``@`` stands for ``bound`` or ``free``: which names an expression may have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping

from archytas_nb.loop.events import Json

BUILTINS = (
    "abs", "all", "any", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "range",
    "round", "set", "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip
"""The functions of Python that a program may call."""

MAX_TEXT = 220
"""Maximum number of characters in a text."""

MAX_COMMENT = 160
"""Maximum number of characters in the comment that begins a corrected program."""

_SHARED = r"""
identifier ::= [A-Za-z_] [A-Za-z0-9_]{0,40}
number ::= "-"? [0-9]{1,16} ("." [0-9]{1,16})?
constant ::= "True" | "False" | "None"
character ::= [^"\\\n{}] | "\\" ["\\nt']
format ::= ":" [0-9,.<>+]{0,6} [a-z%]?
binary ::= " + " | " - " | " * " | " / " | " // " | " % " | " ** " | compare | " and " | " or "
compare ::= " == " | " != " | " < " | " <= " | " > " | " >= " | member
member ::= " in " | " not in " | " is " | " is not "
targets ::= identifier (", " identifier)*
indent ::= "" | "    " | "        " | "            "
"""

_EXPRESSIONS = r"""
expr@ ::= part@ (" if " part@ " else " part@)?
part@ ::= unit@ (binary unit@){0,8}
unit@ ::= ("not " | "-")? atom@ trailer@*
atom@ ::= name@ | call@ | number | constant | string@ | list@ | table@ | "(" expr@ (", " expr@)* ")"
trailer@ ::= "[" index@ "]" | method@ | "." identifier
method@ ::= "." identifier "(" (expr@ (", " expr@)*)? ")"
index@ ::= expr@ | expr@? ":" expr@?
variable@ ::= name@ ("[" (number | name@ | "'" [^'\\\n{}]{1,60} "'") "]" | "." identifier)*
filled@ ::= value@ ((" + " | " - " | " * " | " / ") value@)*
value@ ::= variable@ | number | builtin "(" value@ (", " value@)* ")"
given@ ::= (expr@ | comprehension) (", " (expr@ | option@))*
option@ ::= "key=" key | "reverse=" constant | "default=" expr@
string@ ::= "\"" character{0,MAX} "\"" | "f\"" (character | "{" filled@ format? "}"){0,MAX} "\""
list@ ::= "[]" | "[" expr@ (", " expr@)* "]" | "[" comprehension "]"
table@ ::= "{}" | "{" pair@ (", " pair@)* "}" | "{" comprehension "}"
pair@ ::= expr@ ": " expr@
"""

_COMPREHENSIONS = r"""
comprehension ::= exprfree loop | exprfree ": " exprfree loop
key ::= "lambda " identifier ": " exprfree | identifier ("." identifier)?
loop ::= (" for " targets " in " partfree (" if " partfree)*){1,2}
"""


_STATEMENTS = r"""
line ::= assignment | action | condition | "pass" | "break" | "continue"
assignment ::= targets " = " expr@ (", " expr@)* | change | identifier "[" expr@ "] = " expr@
change ::= identifier (" += " | " -= " | " *= " | " /= ") expr@
action ::= "answer(" answered ")" | "show(" expr@ (", " expr@)* ")" | last | call@ | name@ method@
last ::= "give_up(" string@ ")"
condition ::= ("if " | "elif " | "while ") expr@ ":" | "else:" | "for " targets " in " expr@ ":"
"""

_TOLD = r"""
answered ::= told | fact
told ::= "f\"" piece{0,MAX} "{" found format? "}" piece{0,MAX} "\""
piece ::= character | "{" filled@ format? "}"
found ::= result more* | builtin "(" value@ (", " value@)* ")"
more ::= "[" (number | name@ | "'" [^'\\\n{}]{1,60} "'") "]" | "." identifier | join value@
join ::= " + " | " - " | " * " | " / "
fact ::= ("not " | "-")? plain trailer@* (binary unit@){0,8} (" if " part@ " else " part@)?
plain ::= name@ | call@ | number | constant | list@ | table@ | "(" expr@ (", " expr@)* ")"
"""
"""What is answered when results were found: a value, or a text that names one of them.

Without it, a small model forgets in its answer what it has found, or tells it from memory.
"""

_END = r'("\n" | "  #")'
"""How a line ends: without it, a model that wants to end the line has to write on."""

_LOOP = re.compile(r"\s*for ([\w, ]+) in ")
_ASSIGNMENT = re.compile(r"\s*(\w+(?:, \w+)*) = ")
_INNER_LOOP = re.compile(r" for ([\w, ]+) in ")
_STRING = re.compile(r'(f?)("(?:[^"\\\n]|\\.)*")')
_FILLED = re.compile(r"\{[^{}]*\}")


def quoted(text: str) -> str:
    """A text as a literal of the grammar."""
    return json.dumps(text, ensure_ascii=False)


def _choice(options: Iterable[str]) -> str:
    return " | ".join(options)


class ProgramGrammar:
    """The grammar of programs over some tools.

    Args:
        tools: The JSON schema of each tool's input, by the name of its function.
    """

    def __init__(self, tools: Mapping[str, Json]) -> None:
        self._tools = {name: dict(schema.get("properties", {})) for name, schema in tools.items()}
        self._required = {name: schema.get("required", ()) for name, schema in tools.items()}

    def program(self, *, is_corrected: bool = False) -> str:
        """A whole program in a code block; a name is any.

        Args:
            is_corrected: Whether the one before failed. Then a comment comes first: a small model
                that does not say what it changes writes the same again.
        """
        comment = f'"# Corrected: " [^\\n`]{{8,{MAX_COMMENT}}} "\\n"' if is_corrected else ""
        root = rf'root ::= "```python\n" {comment} (indent line "\n"){{1,60}} "```"'
        return self._with(root, None)

    def line(self, names: Collection[str] | None, results: Collection[str] = ()) -> str:
        """One line, or the end of the program.

        Args:
            names: The names that it may have; None for any.
            results: The names of what was found by calls.
        """
        return self._with(f'root ::= "```" | indent line {_END}', names, results)

    def answer(self, names: Collection[str], results: Collection[str] = ()) -> str:
        """A line that answers."""
        text = "told" if results else "stringbound"
        return self._with(f'root ::= "answer(" {text} ")" {_END}', names, results)

    def program_that_ends(self, ending: str) -> str:
        """A program that only calls ``answer`` or ``give_up``."""
        return self._with(rf'root ::= "```python\n{ending}(" stringfree ")\n```"', None)

    def with_results_renamed(self, text: str) -> str:
        """A program, or a line of one, in which no variable has the name of a tool.

        A small model likes to name a result like the tool that it comes from, `price = price(…)`,
        and does not write it otherwise when it is told to. The variable gets another name.
        """
        lines = text.split("\n")
        inner = [each for found in _INNER_LOOP.findall(text) for each in found.split(", ")]
        named = [each for each in (*names_bound_in(lines), *inner) if each in self._tools]
        if not named:
            return text
        # What is called stays, and so do arguments and attributes of that name.
        variable = re.compile(rf"(?<![\w.])({'|'.join(named)})(?![\w(]|=[^=])")

        def renamed(part: str) -> str:
            return variable.sub(r"\1_value", part)

        parts: list[str] = []
        done = 0
        for found in _STRING.finditer(text):
            parts.append(renamed(text[done : found.start()]))
            inside = found[0]
            if found[1]:
                inside = _FILLED.sub(lambda each: renamed(each[0]), inside)
            parts.append(inside)
            done = found.end()
        return "".join([*parts, renamed(text[done:])])

    def _with(
        self,
        root: str,
        names: Collection[str] | None,
        results: Collection[str] = (),
    ) -> str:
        """The grammar with a root; names are these, or any if there are none given."""
        kind = "free" if names is None else "bound"
        rules = [root, _SHARED, _COMPREHENSIONS, *self._expressions("free", None)]
        if names is not None:
            rules += self._expressions("bound", names)
        rules.append(_STATEMENTS.replace("@", kind))
        if results:
            rules.append(_TOLD.replace("@", kind).replace("MAX", str(MAX_TEXT // 2)))
            rules.append(f"result ::= {_choice(quoted(each) for each in results)}")
        else:
            rules.append(f"answered ::= expr{kind}")
        return "\n".join(line for rule in rules for line in rule.split("\n") if line) + "\n"

    def _expressions(self, kind: str, names: Collection[str] | None) -> list[str]:
        rules = [_EXPRESSIONS.replace("@", kind).replace("MAX", str(MAX_TEXT))]
        options = ["identifier"]
        if names is not None:
            options = [quoted(each) for each in names] or ["constant"]
        rules.append(f"name{kind} ::= {_choice(options)}")
        calls = [self._call(number, name, kind) for number, name in enumerate(self._tools)]
        builtins = _choice(quoted(each) for each in BUILTINS)
        calls.append(f'builtin "(" given{kind}? ")"')
        rules.append(f"call{kind} ::= {_choice(calls)}")
        if kind == "free":
            rules.append(f"builtin ::= {builtins}")
        for number, (tool, parameters) in enumerate(self._tools.items()):
            optional = [
                self._argument(name, each, kind)
                for name, each in parameters.items()
                if name not in self._required[tool]
            ]
            if optional:
                rules.append(f"argument{kind}{number} ::= {_choice(optional)}")
        return rules

    def _call(self, number: int, name: str, kind: str) -> str:
        """A call of a tool: the required arguments in their order, then the others in any.

        A model that would leave a name away, as in `f("a")`, writes `f()` if it may.
        """
        parameters = self._tools[name]
        required = [each for each in parameters if each in self._required[name]]
        argument = f"argument{kind}{number}"
        given = ' ", " '.join(self._argument(each, parameters[each], kind) for each in required)
        if not required and parameters:
            given = f'({argument} (", " {argument})*)?'
        elif len(required) < len(parameters):
            given += f' (", " {argument})*'
        return f'{quoted(f"{name}(")} {given} ")"' if given else quoted(f"{name}()")

    def _argument(self, name: str, schema: Json, kind: str) -> str:
        """One argument by its name: one of its legal values or a variable, or an expression."""
        legal = schema.get("enum") if isinstance(schema, dict) else None
        if not legal:
            return f"({quoted(f'{name}=')} expr{kind})"
        values = _choice([*(quoted(_literal(each)) for each in legal), f"variable{kind}"])
        return f"({quoted(f'{name}=')} ({values}))"


def names_bound_in(lines: Iterable[str]) -> list[str]:
    """The names that the lines of a block bind: targets of loops and assignments."""
    found = []
    for line in lines:
        match = _LOOP.match(line) or _ASSIGNMENT.match(line)
        if match:
            found += [each.strip() for each in match[1].split(",")]
    return found


def _literal(value: Json) -> str:
    """A legal value as a program writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
