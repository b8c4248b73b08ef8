"""The grammar of the programs of a small model, in GBNF, made from its tools.

It is the part of Python that such a model writes well: assignments, calls, conditions and loops,
without definitions and imports. A tool is called with its own parameters, all required ones among
them, and, where there are only some legal values, with one of these or with a variable. Line by
line, a name in an expression is one that is bound; in a comprehension, which binds names after
their use, it is any.

In the rules below, ``@`` stands for ``bound`` or ``free``: which names an expression may have.
"""

from __future__ import annotations

import ast
import json
import string
from collections.abc import Collection, Iterable, Mapping

from archytas_nb.loop.events import Json
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.parse import around_lines, parsed
from archytas_nb.syntax.program import Program, called

BUILTINS = (
    "abs", "all", "any", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "range",
    "round", "set", "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip
"""The functions of Python that a program may call."""

MAX_BEFORE_RESULT = 110
"""Maximum number of characters of an answer before the result that it must name.

Without it, a small model that has not named a result and may not end the text writes on and on.
"""

MAX_STATEMENTS = 30
"""Maximum number of lines in a program."""

MAX_COMMENT = 160
"""Maximum number of characters in the comment that begins a corrected program."""

STATEMENTS_LEFT_OUT = (
    "assert", "async", "await", "class", "def", "except", "finally", "from", "global", "import",
    "lambda", "nonlocal", "raise", "return", "try", "with", "yield",
)  # fmt: skip
"""The words that begin a statement which a program cannot have.

A model that wants to write one is given no token but the word itself as the beginning of a name: it
would write ``defparcel_cost`` and go on to the limit. So no line begins with a name that begins
with one of them. Words that begin many names, as ``del`` does, are not among them.
"""

_SHARED = r"""
identifier ::= [A-Za-z_] [A-Za-z0-9_]{0,40}
number ::= "-"? [0-9]{1,16} ("." [0-9]{1,16})?
constant ::= "True" | "False" | "None"
character ::= [^"\\\n{}] | "\\" ["\\nt']
plaintext ::= "\"" (character | [{}])* "\""
binary ::= " + " | " - " | " * " | " / " | " // " | " % " | " ** " | compare | " and " | " or "
compare ::= " == " | " != " | " < " | " <= " | " > " | " >= " | member
member ::= " in " | " not in " | " is " | " is not "
targets ::= identifier (", " identifier)*
rest ::= [A-Za-z0-9_]{0,40}
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
value@ ::= given@ | builtin "(" given@ (", " given@)* ")"
given@ ::= variable@ | number
inputs@ ::= (expr@ | comprehension) (", " (expr@ | option@))*
option@ ::= "key=" key | "reverse=" constant | "default=" expr@
string@ ::= "\"" character* "\"" | "f\"" (character | "{" filled@ "}")* "\""
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
assignment ::= start (", " identifier)* " = " expr@ (", " expr@)* | change
change ::= start "[" expr@ "] = " expr@ | start (" += " | " -= " | " *= " | " /= ") expr@
action ::= "answer(" answered ")" | "show(" expr@ (", " expr@)* ")" | last | call@ | subject method@
last ::= "give_up(" string@ ")"
condition ::= ("if " | "elif " | "while ") expr@ ":" | "else:" | "for " targets " in " expr@ ":"
"""

_TOLD = r"""
told ::= "f\"" piece{0,MAX} "{" found "}" piece* "\""
piece ::= character | "{" filled@ "}"
found ::= result more* | builtin "(" value@ (", " value@)* ")"
more ::= "[" (number | name@ | "'" [^'\\\n{}]{1,60} "'") "]" | "." identifier | join value@
join ::= " + " | " - " | " * " | " / "
"""
"""The text that is answered when results were found: it names one of them.

Without it, a small model forgets in its answer what it has found, or tells it from memory.
"""

_INPUTS = r"""
input@ ::= string@ | truth@ | amount@ | literallist@ | literaltable@
textual@ ::= string@ | variable@
truth@ ::= constant | variable@
amount@ ::= "-"? given@ ((" + " | " - " | " * " | " / ") given@){0,4}
literallist@ ::= "[" (input@ (", " input@)*)? "]"
literaltable@ ::= "{" (string@ ": " input@ (", " string@ ": " input@)*)? "}"
"""
"""What a call is given when nothing was found yet, or when it failed: values, and sums of them.

Where any expression is allowed, a small model computes the result itself, or writes on and on.
"""

_INPUT_OF = {"string": "textual", "number": "amount", "integer": "amount", "boolean": "truth"}
"""The ones of them that a parameter takes, by its type of JSON."""

_LITERAL = r"""
literal ::= literalstring | number | constant
literalstring ::= plaintext
literalnumber ::= number
literalinteger ::= "-"? [0-9]{1,16}
literalboolean ::= "True" | "False"
literalnull ::= "None"
"""
"""Values that are written as they are."""

_FACT = r"""
fact ::= ("not " | "-")? plain trailer@* (binary unit@){0,8} (" if " part@ " else " part@)?
"""
"""A value that is answered; what it begins with depends on the type of the answer.

An answer of a required type calls no tool, so that the result is seen before it is answered.
"""

_PLAIN = ("name@", '"(" expr@ (", " expr@)* ")"')
_COMPUTED = ("abs", "float", "int", "len", "max", "min", "round", "sum")
_BUILTINS_OF = {
    "number": _COMPUTED,
    "integer": _COMPUTED,
    "boolean": ("all", "any", "bool"),
    "array": ("list", "set", "sorted", "tuple"),
    "object": ("dict",),
}
"""The functions of Python that give a value of a type of JSON."""
_LITERALS = {
    "number": "number",
    "integer": "number",
    "boolean": "constant",
    "null": "constant",
    "array": "list@",
    "object": "table@",
}
"""The literals of each type of JSON but text."""

_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", type(None): "null"}

_END = r'("\n" | "  #")'
"""How a line ends: without it, a model that wants to end the line has to write on."""


def quoted(text: str) -> str:
    """A text as a literal of the grammar."""
    return json.dumps(text, ensure_ascii=False)


def _choice(options: Iterable[str]) -> str:
    return " | ".join(options)


def _not_beginning_with(words: Collection[str], written: str = "") -> str:
    """A name that does not begin with one of these words, or its rest after what is written."""
    towards = {each[len(written)] for each in words if each.startswith(written)}
    ends = {each[-1] for each in words if each[:-1] == written}
    letters = string.ascii_letters + "_"
    if written:
        letters += string.digits
    options = [f"[{''.join(each for each in letters if each not in towards)}] rest"]
    for letter in sorted(towards - ends):
        options += [f'"{letter}" ({_not_beginning_with(words, written + letter)})?']
    return _choice(options)


class ProgramGrammar:
    """The grammar of programs over some tools.

    Args:
        tools: The JSON schema of each tool's input, by the name of its function.
        answer: The JSON schema of the answer; None for text.
    """

    def __init__(self, tools: Mapping[str, Json], answer: Json = None) -> None:
        self._schemas = tools
        self._answer = answer
        self._tools = {name: dict(schema.get("properties", {})) for name, schema in tools.items()}
        self._required = {name: schema.get("required", ()) for name, schema in tools.items()}

    def answering(self, schema: Json) -> ProgramGrammar:
        """The same grammar for answers with this JSON schema; None for text."""
        return ProgramGrammar(self._schemas, schema)

    def program(self, *, is_corrected: bool = False, calls_first: bool = False) -> str:
        """A whole program in a code block; a name is any.

        Args:
            is_corrected: Whether the one before failed. Then a comment comes first: a small model
                that does not say what it changes writes the same again.
            calls_first: Whether it begins with a call, or only gives up.
        """
        comment = f'"# Corrected: " [^\\n`]{{8,{MAX_COMMENT}}} "\\n"' if is_corrected else ""
        first = ""
        if calls_first:
            first = f'((start " = ")? ({_choice(self._calls("free"))}) | last) "\\n"'
        lines = rf'(indent line "\n"){{{int(not calls_first)},{MAX_STATEMENTS}}}'
        root = rf'root ::= "```python\n" {comment} {first} {lines} "```"'
        return self._with(root, None, inputs=calls_first)

    def line(self, names: Collection[str] | None, results: Collection[str] = ()) -> str:
        """One line, or the end of the program.

        Args:
            names: The names that it may have; None for any.
            results: The names of what was found by calls.
        """
        return self._with(f'root ::= "```" | indent line {_END}', names, results)

    def first_call(
        self, names: Collection[str], *, may_answer: bool, may_assign: bool = False
    ) -> str:
        """A line that calls a tool, before anything else is done.

        Args:
            names: The names that its input may have.
            may_answer: Whether it may be an answer instead; otherwise the model may give up.
            may_assign: Whether it may be a plain value for a variable instead.
        """
        line = f'(start " = ")? ({_choice(self._calls())})'
        line += f' | "answer(" ({self._known("bound")}) ")"' if may_answer else " | last"
        line += ' | start " = " inputbound' if may_assign else ""
        return self._with(f"root ::= ({line}) {_END}", names, inputs=True)

    def remark(self) -> str:
        """The rest of a comment that was begun."""
        return f'root ::= [^\\n`#]{{4,{MAX_COMMENT}}} "\\n"\n'

    def retry(self, statement: str, names: Collection[str]) -> str:
        """A statement whose call failed, as it was or with another input.

        Args:
            statement: The statement.
            names: The names that the input may have.
        """
        options = [quoted(statement)]
        calls = self._calls()
        before, name = _only_call(statement)
        if name in self._tools:
            call = calls[list(self._tools).index(name)]
            options = [f"{quoted(before)} {call}" if before else call]
        else:
            options += calls
        return self._with(f"root ::= ({_choice(options)}) {_END}", names, inputs=True)

    def _calls(self, kind: str = "bound") -> list[str]:
        """A call of each tool, with plain values."""
        return [self._call(name, kind, "input") for name in self._tools]

    def answer(self, names: Collection[str], results: Collection[str] = ()) -> str:
        """A line that answers."""
        text = "told" if results else "stringbound"
        if self._answer is not None:
            text = "answered"
        return self._with(f'root ::= "answer(" {text} ")" {_END}', names, results)

    def program_that_ends(self, ending: str, names: Collection[str] | None = None) -> str:
        """A program that only calls ``answer`` or ``give_up``; names are these, or any."""
        kind = "free" if names is None else "bound"
        text = self._known(kind) if ending == "answer" else f"string{kind}"
        return self._with(rf'root ::= "```python\n{ending}(" ({text}) ")\n```"', names)

    def answer_with_literal(self) -> str:
        """A program that only calls ``answer``, with a literal of the required type.

        A small model that answered a text in place of a number writes the same program again.
        """
        root = rf'root ::= "```python\nanswer(" ({_literals_of(self._answer)}) ")\n```"'
        return _joined([root, _SHARED, _LITERAL])

    def _known(self, kind: str) -> str:
        """The rule of an answer without a call: of the required type, or else text or a number."""
        if self._answer is not None:
            return "answered"
        return f"plaintext | string{kind} | filled{kind}"

    def with_results_renamed(self, text: str) -> str:
        """A program, or a line of one, in which no variable has the name of a tool.

        A small model likes to name a result like the tool that it comes from, `price = price(…)`,
        and does not write it otherwise when it is told to. The variable gets another name.
        """
        around = around_lines(text)
        if around is None:
            return text
        whole = text.join(around)
        tree = parsed(whole)
        edits = Edits(whole)
        uses = [each for each in Bindings(tree).uses if isinstance(each.node, ast.Name)]
        bound = {each.name for each in uses if each.act == "bind"}
        called = {id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}
        for each in uses:
            is_result = each.name in bound and id(each.node) not in called
            if is_result and each.name in self._tools and isinstance(each.node, ast.Name):
                edits.replace(each.node, f"{each.name}_value")
        before, after = around
        return edits.applied().removeprefix(before).removesuffix(after)

    def is_call(self, statement: str) -> bool:
        """Whether a statement calls a tool, and does no more than to name its result."""
        return _only_call(statement)[1] in self._tools

    def with_result_named(self, statement: str, taken: Collection[str]) -> str:
        """A statement that only calls a tool, with a variable for its result.

        Otherwise the lines after it cannot use what was found.

        Args:
            statement: A statement.
            taken: The names of the variables that there are.
        """
        before, tool = _only_call(statement)
        if before or tool not in self._tools:
            return statement
        names = [f"{tool}_value", *(f"{tool}_value_{number}" for number in range(2, 100))]
        free = [each for each in names if each not in taken]
        return f"{free[0]} = {statement}" if free else statement

    def _with(
        self,
        root: str,
        names: Collection[str] | None,
        results: Collection[str] = (),
        *,
        inputs: bool = False,
    ) -> str:
        """The grammar with a root; names are these, or any if there are none given.

        `inputs` is for a root that has calls with plain values.
        """
        kind = "free" if names is None else "bound"
        rules = [root, _SHARED, _COMPREHENSIONS, *self._expressions("free", None)]
        if names is not None:
            rules += self._expressions("bound", names)
        rules.append(_STATEMENTS.replace("@", kind))
        rules.append(f"start ::= {_not_beginning_with(STATEMENTS_LEFT_OUT)}")
        rules.append(f"subject ::= {'start' if names is None else 'namebound'}")
        if inputs:
            rules.append(_INPUTS.replace("@", kind))
        if results:
            rules.append(_TOLD.replace("@", kind).replace("MAX", str(MAX_BEFORE_RESULT)))
            rules.append(f"result ::= {_choice(quoted(each) for each in results)}")
        rules += self._answered(kind, has_results=bool(results))
        return _joined(rules)

    def _answered(self, kind: str, *, has_results: bool) -> list[str]:
        """The rules of the argument of ``answer``: a value of the required type, or text."""
        types = set(_LITERALS)
        texts: list[str] = []
        options = ["told", "fact"]
        if self._answer is not None:
            types = _types_of(self._answer)
            options = ["fact"]
            texts = [each for each in _enum_of(self._answer) if isinstance(each, str)]
            if "string" in types and not texts:
                options.append(f"string{kind}")
        elif not has_results:
            return [f"answered ::= plaintext | expr{kind}"]
        rules = []
        if texts:
            options.append('legal (" if " part@ " else " legal)?'.replace("@", kind))
            rules.append(f"legal ::= {_choice(quoted(_literal(each)) for each in texts)}")
        builtins = {each for kind in types for each in _BUILTINS_OF.get(kind, ())}
        plain = [*_PLAIN, *(_LITERALS[each] for each in _LITERALS if each in types)]
        if self._answer is None:
            plain.append("call@")
        elif builtins:
            made = _choice(quoted(each) for each in sorted(builtins))
            plain.append(f'({made}) "(" given@ (", " given@)* ")"')
        rules.append(f"answered ::= {_choice(options)}")
        rules.append(_FACT.replace("@", kind))
        rules.append(f"plain ::= {_choice(dict.fromkeys(plain))}".replace("@", kind))
        return rules

    def _expressions(self, kind: str, names: Collection[str] | None) -> list[str]:
        named = ["identifier"]
        if names is not None:
            named = [quoted(name) for name in names] or ["constant"]
        calls = [self._call(name, kind) for name in self._tools]
        calls.append(f'builtin "(" inputs{kind}? ")"')
        rules = [
            _EXPRESSIONS.replace("@", kind),
            f"name{kind} ::= {_choice(named)}",
            f"call{kind} ::= {_choice(calls)}",
        ]
        if kind == "free":
            rules.append(f"builtin ::= {_choice(map(quoted, BUILTINS))}")
        return rules

    def _call(self, name: str, kind: str, value: str = "expr") -> str:
        """A call of a tool: the required arguments in their order, then the others in any.

        A model that would leave a name away, as in `f("a")`, writes `f()` if it may.
        """
        parameters = self._tools[name]
        required = [each for each in parameters if each in self._required[name]]
        given = ' ", " '.join(
            self._argument(each, parameters[each], kind, value) for each in required
        )
        optional = _choice(
            self._argument(each, parameters[each], kind, value)
            for each in parameters
            if each not in required
        )
        if not required and parameters:
            given = f'(({optional}) (", " ({optional}))*)?'
        elif optional:
            given += f' (", " ({optional}))*'
        return f'{quoted(f"{name}(")} {given} ")"' if given else quoted(f"{name}()")

    def _argument(self, name: str, schema: Json, kind: str, value: str) -> str:
        """One argument by its name: one of its legal values or a variable, or an expression."""
        legal = schema.get("enum") if isinstance(schema, dict) else None
        if not legal:
            if value == "input":
                value = _INPUT_OF.get(_type_of(schema), value)
            return f"({quoted(f'{name}=')} {value}{kind})"
        values = _choice([*(quoted(_literal(each)) for each in legal), f"variable{kind}"])
        return f"({quoted(f'{name}=')} ({values}))"


def compared_in(statement: str) -> list[str]:
    """The variables among which ``name = min(…)`` or ``name = max(…)`` chooses."""
    match Program(statement).tree.body:
        case [ast.Assign(value=ast.Call() as call)] if called(call) in ("min", "max"):
            several = call.args if len(call.args) > 1 else []
            return [each.id for each in several if isinstance(each, ast.Name)]
    return []


def _only_call(statement: str) -> tuple[str, str]:
    """Of ``target = name(…)`` or ``name(…)`` the text before the name, and the name."""
    body = Program(statement).tree.body
    call = getattr(body[0], "value", None) if len(body) == 1 else None
    if call is None or not called(call):
        return "", ""
    return statement[: call.col_offset], called(call)


def _enum_of(schema: Json) -> list[Json]:
    """The legal values of a schema, if there are only some."""
    if not isinstance(schema, dict):
        return []
    if "const" in schema:
        return [schema["const"]]
    return list(schema.get("enum", ()))


def _type_of(schema: Json) -> str:
    """The type of JSON of a schema that has one; empty otherwise."""
    named = schema.get("type") if isinstance(schema, dict) else None
    return named if isinstance(named, str) else ""


def _types_of(schema: Json) -> set[str]:
    """The types of JSON that a schema allows; all of them if it does not say."""
    every = {*_LITERALS, "string"}
    if not isinstance(schema, dict):
        return every
    if values := _enum_of(schema):
        return {_TYPES.get(type(each), "string") for each in values}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return set[str]().union(*map(_types_of, schema[key]))
    types = schema.get("type", every)
    return {types} if isinstance(types, str) else set(types)


def _joined(rules: Iterable[str]) -> str:
    """Rules as one grammar, without empty lines."""
    return "\n".join(line for rule in rules for line in rule.split("\n") if line) + "\n"


def _literals_of(schema: Json) -> str:
    """The rule of the literals of a JSON schema, without variables and calls."""
    if not isinstance(schema, dict):
        schema = {}
    if values := _enum_of(schema):
        return _choice(quoted(_literal(each)) for each in values)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _choice(map(_literals_of, schema[key]))
    return _choice(_literals_of_type(each, schema) for each in sorted(_types_of(schema)))


def _literals_of_type(kind: str, schema: Mapping[str, Json]) -> str:
    if kind == "array":
        item = _literals_of(schema["items"]) if schema.get("items") else "literal"
        return f'"[" (({item}) (", " ({item}))*)? "]"'
    if kind != "object":
        return f"literal{kind}"
    properties = schema.get("properties")
    if properties:
        pairs = ' ", " '.join(
            f"{quoted(f'{_literal(name)}: ')} ({_literals_of(each)})"
            for name, each in properties.items()
        )
        return f'"{{" {pairs} "}}"'
    given = schema.get("additionalProperties")
    value = _literals_of(given) if isinstance(given, dict) else "literal"
    pair = f'literalstring ": " ({value})'
    return f'"{{" ({pair} (", " {pair})*)? "}}"'


def _literal(value: Json) -> str:
    """A legal value as a program writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
