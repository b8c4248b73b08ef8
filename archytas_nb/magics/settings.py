"""The settings of ``%agent`` and `Agent`, which ``%config ArchytasNB`` shows and changes.

Changes take effect with the next question. Precedence: the option of the question or the argument
of the agent, ``%config`` (or IPython's configuration file), the environment variable
``ARCHYTAS_NB_…`` with the same name, the default. Environment variables also apply in scripts,
``%config`` only in a kernel with the extension. For the model, its endpoint and its file, an empty
text counts as unset, and so does an empty environment variable.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import traitlets
from IPython.core.error import UsageError
from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode
from traitlets.config import Config, Configurable

from archytas_nb.errors import ConfigurationError
from archytas_nb.settings import (
    SETTINGS,
    Kind,
    Setting,
    UnreadableSettingError,
    check_bounds,
    check_fields,
    from_environment,
    split_names,
)

if TYPE_CHECKING:
    from archytas_nb.models.choose import ModelSettings


class Unreadable(ArgumentTypeError, ValueError):
    """A text does not stand for a value; argparse, too, shows the message as it is."""


class _Trait(traitlets.TraitType[Any, Any]):
    """A trait whose default is the value that the environment sets, or else the setting's."""

    setting: Setting

    def get(self, obj: Any, cls: Any = None) -> Any:  # noqa: ARG002 - traitlets' signature
        """The value that was set, else the environment's, else the default; raises UsageError."""
        if self.setting.name in obj._trait_values:  # noqa: SLF001 - traitlets' own `get` puts defaults there
            return obj._trait_values[self.setting.name]  # noqa: SLF001
        try:
            found = from_environment(self.setting.name)
        except ConfigurationError as error:
            raise UsageError(str(error)) from None
        if self.setting.kind == "secret":
            return _Hidden(found)
        return found

    def read(self, text: str) -> Any:
        """The value that a text stands for; raises Unreadable."""
        return reader(self.setting)(text)


def reader(setting: Setting) -> Any:
    """A function that reads a text, for argparse."""

    def read(text: str) -> Any:
        try:
            return setting.read(text)
        except UnreadableSettingError as error:
            raise Unreadable(str(error)) from None

    return read


class Secret(Unicode):  # type: ignore[type-arg]
    """A text whose value neither an error nor a repr shows."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Check that it is text."""
        if not isinstance(value, str):
            self.error(obj, _Hidden("x"))
        return _Hidden(value)


class _Hidden(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


class _Whole(Int):  # type: ignore[type-arg]
    """A whole number, which True is not."""

    def validate(self, obj: Any, value: Any) -> Any:
        if isinstance(value, bool):
            self.error(obj, value)
        return super().validate(obj, value)


class _Names(List):  # type: ignore[type-arg]
    """Names as a list or as ``"one,two"``."""

    def set(self, obj: Any, value: Any) -> None:
        if isinstance(value, str):
            value = split_names(value)
        super().set(obj, value)


class _Fields(Dict):
    """Additional request fields: JSON values, without fields that have their own setting."""

    def validate(self, obj: Any, value: Any) -> Any:
        # Imported here: loading the extension, which each notebook does, must be fast.
        from archytas_nb.models.body import checked_fields

        fields: dict[str, Any] = super().validate(obj, value) or {}
        try:
            check_fields(fields)
            checked_fields(fields)
        except (ConfigurationError, UnreadableSettingError) as error:
            raise TraitError(f"request: {error}") from None
        return fields


class _Bounds(Dict):
    """Bounds of a program by their names."""

    def validate(self, obj: Any, value: Any) -> Any:
        given: dict[str, Any] = super().validate(obj, value) or {}
        try:
            check_bounds(given)
        except UnreadableSettingError as error:
            raise TraitError(f"{self.name}: {error}") from None
        return given


_KINDS: dict[Kind, Any] = {
    "text": Unicode,
    "secret": Secret,
    "flag": Bool,
    "choice": Enum,
    "whole": _Whole,
    "number": Float,
    "names": _Names,
    "fields": _Fields,
    "bounds": _Bounds,
}


def _trait(name: str) -> Any:
    """The trait of a setting; %config shows the kind's name."""
    setting = SETTINGS[name]
    kind = _KINDS[setting.kind]
    arguments: list[Any] = []
    limits: dict[str, Any] = {}
    match setting.kind:
        case "choice":
            arguments = [setting.choices, setting.default]
        case "secret":
            arguments = [_Hidden(setting.default)]
        case "names":
            arguments = [Unicode(), list(setting.default)]
        case _:
            arguments = [setting.default]
    if setting.least is not None:
        limits["min"] = setting.least
    if setting.most is not None:
        limits["max"] = setting.most
    info = kind.info_text
    if limits:
        info = f"{info} of at least {setting.least}"
    shown = next(each.__name__ for each in kind.__mro__ if not each.__name__.startswith("_"))
    made = type(shown, (_Trait, kind), {"info_text": info, "setting": setting})
    trait = made(*arguments, help=setting.text, allow_none=setting.optional, **limits)
    return trait.tag(config=True)


integer = reader(Setting("", "whole", None, ""))
number = reader(Setting("", "number", None, ""))
amount = reader(Setting("", "whole", None, "", least=0))
share = reader(Setting("", "number", None, "", least=0, most=1))
"""Readers of numbers, for options without a setting."""


class Settings(Configurable):
    """What may be set once for all questions."""

    def __init__(self, **kwargs: Any) -> None:
        self._refused: set[str] = set()  # the settings whose last value in %config was wrong
        super().__init__(**kwargs)

    def update_config(self, config: Config) -> None:
        """Take over what ``%config`` sets; raises TraitError if a value is wrong."""
        names = set(config.get(type(self).__name__, ()))
        self._refused |= names
        # Imported here: loading the extension, which each notebook does, must be fast.
        from archytas_nb.kernel.origin import is_of_code

        if names and is_of_code():  # which could let its own calls run
            raise TraitError(
                f"{', '.join(sorted(names))}: code of a model changes no settings of the agent; "
                "they belong to the user"
            )
        super().update_config(config)
        self._refused -= names

    def drop_refused(self) -> None:
        """Remove wrong values from the shell's configuration, from which the next load reads.

        ``%config`` writes a value there, too, whether it is refused here or not.
        """
        if self.parent is None or not self._refused:
            return
        section = type(self).__name__
        accepted = self.config[section]
        found = self.parent.config[section]
        for name in self._refused:
            if name in accepted:
                found[name] = accepted[name]
            else:
                found.pop(name, None)
        self._refused.clear()

    vars().update({name: _trait(name) for name in SETTINGS})
    # The traits that this package names.
    cassette: Any
    cassette_mode: Any
    warm: Any


def model_settings(config: Settings) -> ModelSettings:
    """The configured model settings."""
    from archytas_nb.models.choose import ModelSettings

    values: dict[str, Any] = {}
    for each in fields(ModelSettings):
        value = getattr(config, each.name)
        if each.name == "api_key":
            value = str(value)
        elif each.name == "request":
            value = json.dumps(value)
        values[each.name] = None if value == "" else value
    return ModelSettings(**values)
