"""Names of hardware, processors and cloud instances: which are the same, and what is near.

A name is looked up by three rules, in this order:

1. exact: it has the words of an id, a name or an alias, also in another order. Case, spaces,
   punctuation and trademark signs do not count, nor does a leading vendor, nor what a tool adds
   after the part ("GPU", "Developer Kit"); of a line of lspci, the part stands in the last
   brackets, and "/" stands between parts of one die;
2. family: it is a name that several entries share ("Gaudi", "P4"), or its words stand in the names
   of several ("A100 40GB"). The answer is all of them;
3. otherwise it is unknown, and `difflib` hints at similar names. A hint is never taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeVar

from msgspec import Struct

from gramwatt.sci.figures.csv_data import Cell, Id, Row, Sources, column
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed

Entry = TypeVar("Entry")
HINTS = 5
"""Most similar names of a hint."""
DIGITS = str.maketrans("OoIl", "0011")
"""Letters that are taken for digits in the hint for a word that has digits: "A1OO"."""
LEAST_LIKE, LEAST_LIKE_IF_BEGUN = 0.6, 0.5
"""Least similarity of a hinted part, as difflib measures, and of one that begins with the same
character: "l5" and "l4" have it."""
VENDORS: Mapping[str, str] = {
    **dict.fromkeys(("nvidia", "tesla", "geforce", "quadro", "grid"), "nvidia"),
    **dict.fromkeys(("amd", "instinct", "radeon"), "amd"),
    **dict.fromkeys(("intel", "habana"), "intel"),
    **dict.fromkeys(("aws", "amazon"), "aws"),
    **{
        vendor: vendor
        for vendor in ("google", "apple", "qualcomm", "microsoft", "meta", "cerebras", "sambanova")
    },
}
"""Words that may precede a part's name, with whose it is then: a Tesla M4 is not Apple's M4."""
PART_TAIL = re.compile(
    r"(?<=.)(?: (?:tensor core|gpus?|graphics|chip|shared|nvgpu|oam|mcm|vf|mxgpu|[al]c|mba"
    r"|lite hash rate|series|hf|o|cards?|boards?|(?:ai )?(?:training )?accelerators?"
    r"|(?:engineering reference )?developer kit(?: super)?))+$"
)
"""What may follow it: of drivers, device trees, and labels of Kubernetes."""
LEADING = frozenset({*VENDORS, "cloud", "corporation", "corp", "inc", "ltd", "labs"})
"""Words that may precede a part's name and do not change it."""
NEUTRAL = frozenset({*LEADING, "rtx", "gtx", "rx", "jetson", "arc", "data", "center", "gpu"})
"""Words of a line of products that people leave out: "A6000" is the RTX A6000."""
_SHARED_NUMBER = re.compile(r"\d000|\d{1,3}")
_BRACKETED = re.compile(r".*\[([^][]+)\](?: \(rev \w+\))?")
_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]", re.IGNORECASE)
_CPU_TAIL = re.compile(
    r"@.*$|^\s*\d+th gen\b|\b(?:with|w/) radeon\b.*$|\b(?:cpu|processor|\d+-cores?)\b",
    re.IGNORECASE,
)
_CPU_GENERATION = re.compile(r"\bXeon(?:\((?:r|tm)\))?\s+6\s+(?=\d{4}[PE])", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+|\+")


class Service(Row, frozen=True, kw_only=True):
    """Names that are not hardware: cloud services, software, kinds of hardware.

    With what they run on, or the reason why that is not known.
    """

    files = ("services.csv",)
    key = ("name",)

    name: Annotated[Cell, column("Name")]
    kind: Annotated[Literal["service", "software", "class"], column("What it is")]
    names: Annotated[tuple[Cell, ...], column("Other names")] = ()
    hardware: Annotated[tuple[Id, ...], column("Parts it runs on", "hardware.csv:id")] = ()
    providers: Annotated[
        tuple[Cell, ...], column("It runs on the instances of these", "instances.csv:provider")
    ] = ()
    families: Annotated[
        tuple[Cell, ...],
        column("It runs on the instances of these families", "instances.csv:family"),
    ] = ()
    reason: Annotated[Cell, column("Sentence for the user")]
    sources: Sources = ()

    def runs_on(self, provider: str, family: str) -> bool:
        """Tell whether it runs on the instances of a family of a provider."""
        return provider in self.providers or family in self.families


class Resolution(Struct, frozen=True):
    """What a name stands for: hardware and instances (ids), and a sentence for the user."""

    hardware: tuple[str, ...]
    instances: tuple[str, ...]
    reason: str


@lru_cache(maxsize=8192)
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without trademark signs."""
    return tuple(
        "plus" if word == "+" else word for word in _WORD.findall(_MARKS.sub(" ", name).lower())
    )


def key(name: str) -> str:
    """Return the words of a name as one; names of equal keys are the same name."""
    return "".join(words(name))


def part_name(name: str) -> str:
    """Return a part's name without the die and the maker around it that lspci prints.

    And without what other tools print around it (`printed.py`).
    """
    from gramwatt.sci.catalog.printed import bare_part  # 9 ms, which a meter does without

    name = bare_part(name)
    bracketed = _BRACKETED.fullmatch(name)
    return bracketed[1] if bracketed else name


def alternatives(name: str) -> list[list[str]]:
    """Return the names that a slash stands between, each as it may be meant, the likeliest first.

    Of "Radeon RX 6800/6900 XT" the second is "6900 XT", "Radeon RX 6900 XT", "Radeon 6900 XT".
    """
    first, *others = [text.strip() for text in part_name(name).split("/")]
    before = first.split()
    return [[first]] + [
        [" ".join((*before[:count], text)) for count in range(len(before), -1, -1)]
        for text in others
    ]


def vendors_in(name: str) -> set[str]:
    """Return the makers that the first words of a part's name say; none where they say none."""
    vendors: set[str] = set()
    for word in words(part_name(name)):
        if word not in VENDORS:
            break
        vendors.add(VENDORS[word])
    return vendors


def cpu_name(name: str) -> str:
    """Return a processor's name without the clock and core count that Linux appends to it.

    And without the generation that people put before its number: "Xeon 6 6980P".
    """
    return _CPU_GENERATION.sub("Xeon ", _CPU_TAIL.sub(" ", name))


class Names:
    """The ids of one kind of thing by their names."""

    def __init__(
        self,
        what: str,
        named: Iterable[tuple[str, str]],
        families: Iterable[tuple[str, str]] = (),
        groups: Iterable[tuple[str, str]] = (),
        *,
        leading: Collection[str] = LEADING,
        tail: re.Pattern[str] = PART_TAIL,
        simplify: Callable[[str], str] = str,
        unique: bool = True,
    ) -> None:
        """Index (name, id) pairs; `what` is the kind of thing in messages.

        `families` pairs a name that several ids share with each of them; `groups` pairs ids with a
        word that they have in common, such as an architecture. `leading` words and a `tail` do not
        change a name; `simplify` is done to each name first. Raises ValueError for a `unique` name
        of two ids.
        """
        self._what, self._leading, self._tail, self._simplify = what, leading, tail, simplify
        self._whole: dict[str, dict[str, None]] = {}
        self._short: dict[str, dict[str, None]] = {}
        self._cores: list[tuple[tuple[str, ...], str]] = []
        for name, row_id in named:
            core = self._core(name)
            self._whole.setdefault(key(simplify(name)), {})[row_id] = None
            ids = self._short.setdefault("".join(core), {})
            ids[row_id] = None
            if unique and len(ids) > 1:
                raise ValueError(f"{what} name {name!r} stands for two ids")
            self._cores.append((core, row_id))
        self._named = tuple(self._cores)
        shared: dict[str, dict[str, None]] = {}
        for name, row_id in families:
            shared.setdefault("".join(self._core(name)), {})[row_id] = None
        self._short |= shared  # "RTX 6000" is three generations, also where one has just that name
        self._cores += [(self._core(name), row_id) for name, row_id in groups]
        self._by_word: dict[str, list[int]] = {}
        for at, (core, _) in enumerate(self._cores):
            for word in dict.fromkeys(core):
                self._by_word.setdefault(word, []).append(at)

    def ids(self, name: str) -> tuple[str, ...]:
        """Return the id of a name, all ids of a family, or none for an unknown name."""
        exact = self._whole.get(key(self._simplify(name))) or self._short.get(self._key(name))
        return tuple(exact or ())

    def find(self, name: str) -> str:
        """Return the id of a name; raises AmbiguousName with its choices, or LookupFailed."""
        ids = self.meant(name)
        if len(ids) == 1:
            return ids[0]
        if ids:
            raise AmbiguousName(self._what, name, ids)
        raise LookupFailed(self._what, name, self.close(name))

    def close(self, name: str) -> tuple[str, ...]:
        """Return the ids that an unknown name may mean, first the names that have all its words."""
        read = re.sub(r"\S*\d\S*", lambda word: word[0].translate(DIGITS), name)
        meant = self.meant(read) if read != name else ()
        return tuple(dict.fromkeys((*meant, *self.holders(name), *self.hints(name))))[:HINTS]

    def meant(self, name: str) -> tuple[str, ...]:
        """Return the ids that a name means: one, several, or none of an unknown name."""
        ids = self.ids(name) or self.reordered(name) or self._short_for(name)
        holders = ids or self.holders(name)
        return ids or (holders if len(holders) > 1 else ())

    def hints(self, name: str) -> list[str]:
        """Return the ids of the most similar names and beginnings of names, best first."""
        part, beginnings = self._key(name), self._beginnings
        begun = [text for text in beginnings if text[:1] == part[:1]]
        near = similar(part, beginnings, LEAST_LIKE) + similar(part, begun, LEAST_LIKE_IF_BEGUN)
        return list(dict.fromkeys(row_id for text in near for row_id in beginnings[text]))[:HINTS]

    @cached_property
    def _beginnings(self) -> Mapping[str, Sequence[str]]:
        """The ids of each beginning of a name, cut between two words."""
        beginnings: dict[str, list[str]] = {}
        for core, row_id in self._cores:
            for count in range(1, len(core) + 1):
                beginnings.setdefault("".join(core[:count]), []).append(row_id)
        return beginnings

    def holders(self, name: str) -> tuple[str, ...]:
        """Return the ids of names that have these words, in any order, others beside or not."""
        part = self._core(name)
        if len(part) == 1 and _SHARED_NUMBER.fullmatch(part[0]):
            return ()  # "Quadro 6000" is older than all that have the number
        holding = (row_id for core, row_id in self._near(part) if part and _holds(core, part))
        return tuple(dict.fromkeys(holding))

    def _near(
        self, part: Sequence[str], *, groups: bool = True
    ) -> Sequence[tuple[tuple[str, ...], str]]:
        """Return the names that have the rarest of some words, in their order."""
        most = len(self._cores if groups else self._named)
        exact = [self._by_word.get(word, []) for word in part if not word.startswith("sxm")]
        near = min(exact, key=len) if exact else range(most)
        return [self._cores[at] for at in near if at < most]

    def reordered(self, name: str) -> tuple[str, ...]:
        """Return the ids of names that are these words in another order."""
        part = self._core(name)
        near = self._near(part, groups=False)
        same = (i for core, i in near if len(core) == len(part) and _holds(core, part))
        return tuple(dict.fromkeys(same))

    def _short_for(self, name: str) -> tuple[str, ...]:
        """Return the ids of names that are these words and a product line's: "A6000" is RTX A6000.

        None of a number that several lines have ("4000").
        """
        part = set(self._core(name))
        if not part or any(_SHARED_NUMBER.fullmatch(word) for word in part):
            return ()
        near = self._near(tuple(part), groups=False)
        short = (i for core, i in near if part < set(core) and set(core) - part <= NEUTRAL)
        return tuple(dict.fromkeys(short))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Return every word of the names."""
        return frozenset(word for core, _ in self._named for word in core)

    def begun(self, name: str) -> tuple[str, ...]:
        """Return the ids of names that begin so, as a table cuts them: "GeForce GTX 108..."."""
        text = key(self._simplify(name)).removeprefix("nvidia")
        begins = (text, f"nvidia{text}")
        ids = (ids for own, ids in self._whole.items() if own.startswith(begins))
        says_part = text[-1:].isalnum() and any(map(str.isdigit, text))
        return tuple(dict.fromkeys(i for own in ids for i in own)) if says_part else ()

    def _key(self, name: str) -> str:
        return "".join(self._core(name))

    def _core(self, name: str) -> tuple[str, ...]:
        """Return the words of a name without those that do not change it."""
        core = words(self._simplify(name))
        while len(core) > 1 and core[0] in self._leading:
            core = core[1:]
        return tuple(self._tail.sub("", " ".join(core)).split())


def similar(name: str, names: Iterable[str], least: float = 0.6) -> list[str]:
    """Return the names most similar to a name, best first: hints for people."""
    from difflib import get_close_matches  # a known name, the usual case, does not need it

    return get_close_matches(name, names, n=2 * HINTS, cutoff=least)


def similar_ids(name: str, ids: Mapping[str, str]) -> list[str]:
    """Return the ids of the names most similar to a name, best first; `ids` are by name."""
    return list(dict.fromkeys(ids[text] for text in similar(name, ids)))[:HINTS]


def find_matches(find: Callable[[str], Entry], name: str) -> tuple[list[Entry], str | None]:
    """Return what a name means by the look-up `find`: one row, or all of an ambiguous name.

    For a name of another kind, such as a service, the rows it runs on and the reason. Raises
    LookupFailed for a name that means nothing.
    """
    try:
        return [find(name)], None
    except AmbiguousName as error:
        return [find(choice) for choice in error.choices], error.reason
    except LookupFailed as error:
        if error.reason is None or not error.close:
            raise
        return [find(row_id) for row_id in error.close], error.reason


def _holds(core: Sequence[str], part: Sequence[str]) -> bool:
    """Tell whether a name has these words; "sxm" is any of its generations, and these are it."""
    return all(
        word in core
        or (word == "sxm" and any(own.startswith(word) for own in core))
        or (word.startswith("sxm") and "sxm" in core)
        for word in part
    )
