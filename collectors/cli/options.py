"""What commands are made of: groups, one JSON document as a request, flags over it, times."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from msgspec import NODEFAULT, Struct, to_builtins
from msgspec.structs import FieldInfo
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import TyperPath

from gramwatt.collectors.settings.files import why
from gramwatt.sci.figures.checks import checked, fields_of, items_of
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.printable import on_terminal

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Local = Annotated[
    bool, typer.Option("--local", help="Of this machine's store, though a server is set.")
]
Source = Annotated[
    str | None, typer.Option("--input", help="The request as JSON: a file, or - for stdin.")
]
KEYWORD = Parameter.KEYWORD_ONLY
UsageError: Any = typer.BadParameter.__base__
"""Of wrong options and arguments; typer has no public name for it."""

_SPAN = re.compile(r"(\d+(?:\.\d*)?)([mhd])")
_SPAN_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


SIZES = {"%": 0.01, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
"""What a number may end in: a model of 7B, 12% busy."""
FIRST = "first"
BARE = {"--explain": "total_g", "--why": FIRST}
"""What options with a value mean without one."""


class OnceCommand(TyperCommand):
    """A command that refuses an option that is given twice, of which the last alone would count.

    Help names an option's value by the last word of what it counts: --expected-hours HOURS.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in self.params:
            if isinstance(option, TyperOption) and not (option.is_flag or option.count):
                name = max(option.opts, key=len).partition("-per-")[0].rpartition("-")[2]
                is_file = isinstance(option.type, TyperPath) or name in ("input", "output")
                option.metavar = option.metavar or ("FILE" if is_file else name.upper())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; raises typer.BadParameter for an option that is given twice."""
        args = self._with_values(args)
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(order).items():
            if not isinstance(option, TyperOption) or option.multiple or option.is_flag:
                continue
            if times > 1 and not option.count:
                raise typer.BadParameter(f"given {times} times, may be given once", ctx, option)
        return super().parse_args(ctx, args)

    def _with_values(self, args: list[str]) -> list[str]:
        """Return the arguments, with its value behind each of BARE that has none."""
        bare = [
            option
            for option in self.params
            if isinstance(option, TyperOption) and option.opts[0] in BARE and not option.is_flag
        ]
        complete = list(args)
        for flag in (option.opts[0] for option in bare if option.opts[0] in args):
            after = complete.index(flag) + 1
            if after == len(complete) or complete[after].startswith("-"):
                complete.insert(after, BARE[flag])
        return complete


class Root(TyperGroup):
    """The command `gramwatt`, which says in a line what is wrong with words that it was given."""

    def main(self, args: Any = None, *more: Any, **options: Any) -> NoReturn:
        """Run a command and exit with its code."""
        options |= {"prog_name": "gramwatt", "standalone_mode": False}
        try:
            code = super().main(args, *more, **options)
        except UsageError as error:
            message = error.format_message().rstrip(".")
            message += "" if message.endswith(("?", ")")) else "."
            if "\n" in message:  # the help of a group that was given no command
                error.show()
            else:
                words = [*(args or sys.argv[1:])[:1]]
                path = error.ctx.command_path if error.ctx else " ".join(["gramwatt", *words])
                show(f"{path}: {message}", f"Options: {path} --help", err=True)
            code = error.exit_code
        except typer.Abort:
            show("Aborted!", err=True)
            code = 1
        sys.exit(code if isinstance(code, int) else 0)


class DefaultGroup(TyperGroup):
    """A group whose first command answers too where no command is named: `report last`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, with the first command before what is neither command nor option."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def group(
    text: str, cls: type[TyperGroup] = TyperGroup, **commands: Callable[..., Any] | typer.Typer
) -> typer.Typer:
    """Return a command of commands, each a function or a group again."""
    app = typer.Typer(no_args_is_help=True, help=text, cls=cls, rich_markup_mode=None)
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            head = cleandoc(command.__doc__ or "").partition("\n\n")[0]
            app.command(name, short_help=" ".join(head.split()))(command)
    return app


def read_document(source: str | None) -> dict[str, Any]:
    """Return the JSON object in a file, or on standard input for "-"; {} without a source.

    Ends the command with exit 2 when it cannot be read or is no object.
    """
    if source is None:
        return {}
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        refuse(f"--input {source}: {why(error)}")
    if not isinstance(document, dict):
        refuse(f"--input {source}: a request is a JSON object")
    return document


def request_command(
    request: type[Struct],
    helps: Mapping[str, str],
    answer: Callable[..., Any],
    lines: Callable[..., list[str]],
) -> Callable[..., None]:
    """Return the command that sends a request, with an option for each of its fields.

    The type of a field says how its option is written; `helps` say what it is, where the words that
    it takes do not. `answer` takes the request's document and raises GramwattError for a wrong one;
    its docstring is the command's. What it returns is printed as JSON, or as `lines`. Both may have
    parameters more, by name: arguments and options of the command besides.
    """
    own, view, parameters = _more(answer), _more(lines), list[Parameter]()
    readers: dict[str, Callable[[Any], Any]] = {}
    for name, hint in get_type_hints(request).items():
        kind, read, metavar = _written(hint)
        flag = flag_of(name).removesuffix("s" if kind == list[str] else "")
        readers[name] = partial(read, flag)
        flag += f"/--no-{name}" * (kind is bool)
        option = typer.Option(flag, metavar=metavar, help=helps.get(name) or _words(hint))
        parameters.append(
            Parameter(name, KEYWORD, default=None, annotation=Annotated[kind | None, option])
        )
    parameters.insert(0, Parameter("source", KEYWORD, default=None, annotation=Source))
    parameters.append(Parameter("as_json", KEYWORD, default=False, annotation=AsJson))

    def command(*, source: str | None, as_json: bool, **values: Any) -> None:
        others, shown = (
            {option.name: values.pop(option.name) for option in options} for options in (own, view)
        )
        flags = {
            name: readers[name](value) for name, value in values.items() if value not in (None, [])
        }
        try:
            document = answer({**read_document(source), **flags}, **others)
        except GramwattError as error:
            refuse_error(error, as_json=as_json)
        if as_json:
            typer.echo(json.dumps(to_builtins(document), indent=2))
        else:
            show(*lines(document, **shown))

    command.__doc__ = answer.__doc__
    command.__signature__ = Signature([*own, *view, *parameters])  # type: ignore[attr-defined]  # typer reads it
    return command


def _more(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function after its first, as options of a command."""
    hints = get_type_hints(function, include_extras=True)
    return [
        parameter.replace(annotation=hints[parameter.name], kind=KEYWORD)
        for parameter in list(signature(function).parameters.values())[1:]
    ]


def grouped(command: Callable[..., None], **helps: str) -> Callable[..., None]:
    """Return a command with an option for each field of its parameters that are groups of options.

    A group is a dataclass, whose fields say in typer's words how they are written, or a struct,
    whose types say what is allowed: any other value ends the command with exit 2, and the sentence
    that an API with that struct answers with. `helps` win over what the struct says of its fields.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, list[Parameter]] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            types = get_type_hints(hint, include_extras=True)
            groups[parameter.name] = [
                Parameter(field.name, KEYWORD, default=field.default, annotation=types[field.name])
                for field in dataclass_fields(hint)
            ]
        elif isinstance(hint, type) and issubclass(hint, Struct):
            groups[parameter.name] = [
                _of_field(field, helps.get(field.name)) for field in fields_of(hint).values()
            ]
        parameters += groups.get(parameter.name) or [
            parameter.replace(annotation=hint, kind=KEYWORD)
        ]

    def with_groups(**values: Any) -> None:
        for name, options in groups.items():
            group = {option.name: values.pop(option.name) for option in options}
            if issubclass(hints[name], Struct):
                group = _checked_fields(hints[name], group)
            values[name] = hints[name](**group)
        command(**values)

    with_groups.__name__, with_groups.__doc__ = command.__name__, command.__doc__
    with_groups.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return with_groups


def _of_field(field: FieldInfo, text: str | None) -> Parameter:
    """Return the option of a struct's field; `text` says what it is, if not the field's type."""
    text = text or _description(field.type)
    if words := _words(field.type):
        text = f"{text} One of {words}."
    option = typer.Option(flag_of(field.encode_name), help=text.strip())
    default = None if field.default in (None, NODEFAULT) else str(field.default)
    kind = list[str] if items_of(field.type) else str
    return Parameter(
        field.name,
        KEYWORD,
        default=Parameter.empty if field.required else default,
        annotation=Annotated[kind | None, option],
    )


def flag_of(name: str) -> str:
    """Return the option of a field: batch_size is --batch-size."""
    return f"--{name.replace('_', '-')}"


def _checked_fields(kind: type[Struct], texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options that were given; exit 2 for one that is not of its type."""
    return {
        field.name: checked_text(flag_of(field.encode_name), field.type, texts[field.name])
        for field in fields_of(kind).values()
        if texts[field.name] not in (None, [])
    }


def _description(kind: Any) -> str:
    """Return what a type says that it is; that of an alternative where it says nothing."""
    texts = [meta.description for meta in getattr(kind, "__metadata__", ()) if meta.description]
    return texts[0] if texts else next(filter(None, map(_description, _parts(kind))), "")


def _words(kind: Any) -> str:
    """Return the words that a type allows."""
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind))
    return "".join(map(_words, _parts(kind)))


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types that a type is made of."""
    return get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)


def checked_text(what: str, kind: Any, value: Any) -> Any:
    """Return the value of an option or argument as its type has it; exit 2 with what it is not."""
    try:
        return checked(kind, value, strict=False)
    except ValueError as error:
        refuse(f"{what} {error}")


def _written(hint: Any) -> tuple[Any, Callable[[str, Any], Any], str | None]:
    """Return how a field of a request is written on a command line, by its type: what typer makes
    of it, what reads that with the option's name, and what stands for its value.
    """
    kinds = [part for part in get_args(hint) if part is not NoneType]
    kinds = kinds if get_origin(hint) is Union else [hint]
    kind = get_origin(kinds[0]) or kinds[0]
    if len(kinds) > 1:
        several = any(get_origin(part) is tuple for part in kinds)
        return (list[str], one_or_several, "NAME") if several else (str, ranged, None)
    forms: dict[Any, tuple[Any, Callable[[str, Any], Any], str | None]] = {
        dict: (list[str], counts, "UNIT=N"),
        tuple: (list[str], as_given, "NAME"),
        float: (str, number, None),
        Literal: (str, as_given, None),
    }
    return forms.get(kind, (kind, as_given, None))


def as_given(_flag: str, value: Any) -> Any:
    """Return the value itself."""
    return value


def number(flag: str, text: str) -> float:
    """Return a number, as in 7e9, 7B, 2T or 12%; exit 2 for anything else."""
    try:
        return _number(text)
    except ValueError:
        refuse(f"{flag} {text!r}: write a number, such as 0.5, 1e9, 7B or 12%")


def _number(text: str) -> float:
    """Return the number that a text is, with a short word for its size; raises ValueError."""
    short = text.strip()
    scale = SIZES.get(short[-1:].upper())
    return float(short) if scale is None else float(short[:-1]) * scale


def counts(flag: str, pairs: list[str]) -> dict[str, float]:
    """Return UNIT=COUNT pairs as a mapping; exit 2 for anything else."""
    amounts: dict[str, float] = {}
    for pair in pairs:
        unit, _, count = pair.partition("=")
        if unit in amounts:
            refuse(f"{flag} {pair!r}: {unit} is given more than once")
        try:
            amounts[unit] = _number(count)
        except ValueError:
            refuse(f"{flag} {pair!r}: write UNIT=COUNT, such as token=1e9")
    return amounts


def one_or_several(_flag: str, names: list[str]) -> str | list[str]:
    """Return a name, or a list of several."""
    return names if len(names) > 1 else names[0]


def ranged(flag: str, text: str) -> float | dict[str, float]:
    """Return a number, or LOW,VALUE,HIGH as requests take it; exit 2 for anything else."""
    try:
        figures = [_number(part) for part in text.split(",")]
    except ValueError:
        figures = []
    if len(figures) == 3:
        return dict(zip(("low", "value", "high"), figures, strict=True))
    if len(figures) != 1:
        refuse(f"{flag} {text!r}: write a number, or LOW,VALUE,HIGH such as 350,400,450")
    return figures[0]


def moment(text: str | None, now: str | None = None) -> str | None:
    """Return a time written as 90m, 12h or 2d after `now` (ISO 8601, default: the clock's) in
    ISO 8601. Any other text is returned as it is: the engine refuses what is not a time.
    """
    if text is None or not (span := _SPAN.fullmatch(text)):
        return text
    try:
        start = datetime.fromisoformat(now) if now else datetime.now(UTC)
        return (start + timedelta(**{_SPAN_UNITS[span[2]]: float(span[1])})).isoformat()
    except (ValueError, OverflowError):  # of another form, or of no century
        return text


def show(*lines: str, err: bool = False) -> None:
    """Print lines that may hold texts of others, such as names: none of them can begin a line of
    its own, or change what a terminal shows.
    """
    print(*map(on_terminal, lines), sep="\n", file=sys.stderr if err else sys.stdout)


def stop(code: int, message: str) -> NoReturn:
    """Exit with a code and a message on stderr: one line, but on a terminal."""
    lines = [f"gramwatt: {message}"]
    if sys.stderr.isatty():
        from gramwatt.collectors.cli.summary import wrapped  # most commands start without it

        lines = wrapped(lines[0])
    show(*lines, err=True)
    raise typer.Exit(code)


def refuse(message: str) -> NoReturn:
    """Report on stderr what is wrong and end with exit 2."""
    stop(2, message)


def refuse_error(error: GramwattError, *, as_json: bool) -> NoReturn:
    """End with exit 2 for a request the engine refuses; as JSON with choices or close names."""
    if as_json:
        document = {"code": error.code, "detail": error.message, **error.names}
        typer.echo(json.dumps(document, indent=2))
    refuse(error.message)
