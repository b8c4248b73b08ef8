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
    Bounds,
    Choice,
    Choices,
    Fields,
    Flag,
    Kind,
    Names,
    Number,
    Secret,
    Setting,
    Text,
    UnreadableSettingError,
    Whole,
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
        if isinstance(self.setting.kind, Secret):
            return _Hidden(found)
        return found

    def read(self, text: str) -> Any:
        """The value that a text stands for; raises Unreadable."""
        return reader(self.setting.kind, optional=self.setting.optional)(text)


def reader(kind: Kind, *, optional: bool = False) -> Any:
    """A function that reads a text, for argparse."""
    setting = Setting("", "notebook", kind, None, "", optional)

    def read(text: str) -> Any:
        try:
            return setting.read(text)
        except UnreadableSettingError as error:
            raise Unreadable(str(error)) from None

    return read


class _Secret(Unicode):  # type: ignore[type-arg]
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
            Fields().check(fields)
            checked_fields(fields)
        except (ConfigurationError, UnreadableSettingError) as error:
            raise TraitError(f"request: {error}") from None
        return fields


class _Choices(_Names):
    """Some of a few names."""

    setting: Setting

    def validate(self, obj: Any, value: Any) -> Any:
        found = super().validate(obj, value)
        try:
            return self.setting.kind.check(found)
        except UnreadableSettingError as error:
            raise TraitError(f"{self.name}: {error}") from None


class _Bounds(Dict):
    """Bounds by their names."""

    setting: Setting

    def validate(self, obj: Any, value: Any) -> Any:
        given: dict[str, Any] = super().validate(obj, value) or {}
        try:
            self.setting.kind.check(given)
        except UnreadableSettingError as error:
            raise TraitError(f"{self.name}: {error}") from None
        return given


_TRAITS: dict[type[Kind], tuple[str, Any]] = {
    Text: ("Unicode", Unicode),
    Secret: ("Secret", _Secret),
    Flag: ("Bool", Bool),
    Choice: ("Enum", Enum),
    Whole: ("Int", _Whole),
    Number: ("Float", Float),
    Names: ("List", _Names),
    Choices: ("List", _Choices),
    Fields: ("Dict", _Fields),
    Bounds: ("Dict", _Bounds),
}
"""The trait of each kind, and its name as `%config` shows it."""


def _trait(name: str) -> Any:
    """The trait of a setting."""
    setting = SETTINGS[name]
    kind = setting.kind
    shown, trait_type = _TRAITS[type(kind)]
    arguments = [setting.default]
    limits: dict[str, Any] = {}
    info = trait_type.info_text
    if isinstance(kind, Choice):
        arguments.insert(0, kind.names)
    elif isinstance(kind, Secret):
        arguments = [_Hidden(setting.default)]
    elif isinstance(kind, Names):
        arguments = [Unicode(), list(setting.default)]
    elif isinstance(kind, Number):
        bounds = {"min": kind.least, "max": kind.most}
        limits = {end: each for end, each in bounds.items() if each is not None}
        info = f"{info} of at least {kind.least}"
    made = type(shown, (_Trait, trait_type), {"info_text": info, "setting": setting})
    trait = made(*arguments, help=setting.text, allow_none=setting.optional, **limits)
    return trait.tag(config=True)


integer = reader(Whole())
number = reader(Number())
amount = reader(Whole(0))
share = reader(Number(0, 1))
"""Readers of numbers, for options without a setting."""


class SettingTraits(Configurable):
    """The settings for all questions."""

    def __init__(self, **kwargs: Any) -> None:
        self._refused: set[str] = set()  # the settings whose last value in %config was wrong
        super().__init__(**kwargs)

    def update_config(self, config: Config) -> None:
        """Take over what ``%config`` sets; raises TraitError if a value is wrong."""
        names = set(config.get(type(self).__name__, ()))
        self._refused |= names
        # Imported here: loading the extension, which each notebook does, must be fast.
        from archytas_nb.functions.origin import is_of_code

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


def model_settings(config: SettingTraits) -> ModelSettings:
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
