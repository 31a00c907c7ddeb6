"""Who bears a board, and ledgers that divide what is read of it; nobody's part is the rest.

A board that one pod holds, or one job alone works on, is that job's whole. Otherwise dynamic energy
is divided by use, and idle energy by the replicas that pods hold, else by memory, as among meters
of one board (devices/sharing.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from gramwatt.collectors.common.clock import NS_PER_S
from gramwatt.collectors.devices.port import Board, GpuUser
from gramwatt.collectors.devices.sharing import WHOLE, Shares, Tenant, part_j, shares
from gramwatt.collectors.host.division import WHOLE as WHOLE_HOST
from gramwatt.collectors.host.division import Part as HostPart
from gramwatt.collectors.journal.intervals import DAY_S, Interval, Ledger, Schedule
from gramwatt.collectors.node.owners import Owner
from gramwatt.collectors.node.pods import Reservation

IDLE_LEAST_S = 0.5
"""A shorter span has no mean power of the board's own."""
CHANGES_MOST = 600
NOBODY = Owner("")


class Claim(NamedTuple):
    """An owner's part of a device, which is the board or a slice of it."""

    owner: Owner
    device_id: str
    part: Shares


Claims = tuple[Claim, ...]


class Books(Protocol):
    """The journals of all jobs of the node."""

    def enter(
        self, claim: Claim, span: tuple[int, int], energy_j: float, kind: str, power_w: float | None
    ) -> None:
        """Record a job's energy [J] of a device over a span [ns]; of NOBODY: the node's rest."""

    def ledger(self, owner: Owner, device_id: str) -> Ledger | None:
        """Return a job's own ledger of a device; None before it has energy of it."""


def claims(
    board: Board,
    reserved: Sequence[Reservation],
    users: Sequence[tuple[Owner | None, GpuUser]],
) -> Claims:
    """Return who bears a board, by what pods hold of it, else by the processes on it.

    A process that cannot be seen counts for its use, and its part is nobody's.
    """
    slices = {part.uuid: part for part in board.slices}
    fixed = tuple(
        Claim(one.owner, one.device_id.replace("/", ":"), Shares(share, share))
        for one in reserved
        if (part := slices.get(one.device_id)) and (share := part.share)
    )
    holders = Counter(one.owner for one in reserved if one.board_id == board.uuid)
    if fixed or (board.slices and not holders):  # NVML does not say on which slice a process is
        return fixed
    found = holders or Counter(owner or NOBODY for owner, _ in users)
    if len(found) == 1:
        return tuple(Claim(owner, board.uuid, WHOLE) for owner in found if owner != NOBODY)
    by_id = {owner.job_id: owner for owner in found}
    tenants = []
    for name, owner in by_id.items():
        own = [user for who, user in users if (who or NOBODY) == owner]
        held = holders[owner] / holders.total() if holders else _memory_part(own, board.memory_b)
        use = [user.sm_percent for user in own if user.sm_percent is not None]
        tenants.append(Tenant(name, sum(use) if use else None, held))
    parts = shares(tenants)
    return tuple(
        Claim(owner, board.uuid, parts[name]) for name, owner in by_id.items() if owner != NOBODY
    )


def _memory_part(users: Sequence[GpuUser], total_b: float | None) -> float | None:
    """Return the part of a board's memory that processes hold; None where it is not known."""
    held_b = [user.memory_b for user in users if user.memory_b is not None]
    return min(1.0, sum(held_b) / total_b) if total_b and len(held_b) == len(users) else None


def kept(before: Sequence[str], now: Claims) -> Claims:
    """Return the claims of the jobs that were on a board before a gap, by id, and still are."""
    return tuple(claim for claim in now if claim.owner.job_id in before)


def names(claims: Claims) -> set[tuple[str, str]]:
    """Return who has which device."""
    return {(one.owner.job_id, one.device_id) for one in claims}


class BoardLedger(Ledger):
    """Divides one board's energy among those that bear it at each moment."""

    __slots__ = ("_books", "_changes", "board", "idle_w")

    def __init__(
        self, board: Board, schedule: Schedule, books: Books, kind: str | None = None
    ) -> None:
        super().__init__(board.uuid, schedule, _nothing, kind=kind)
        self.board = board
        self.idle_w: float | None = None
        """The lowest mean power seen [W]."""
        self._books = books
        self._changes: list[tuple[int, Claims]] = [(0, ())]

    @property
    def claims(self) -> Claims:
        """Return the jobs that the board is billed to now, with their parts."""
        return self._changes[-1][1]

    def claim(self, since_ns: int, claims: Claims) -> None:
        """Set who bears the board from a moment on [ns]."""
        if claims != self.claims:
            self._changes.append((since_ns, claims))
            if len(self._changes) > CHANGES_MOST:  # a board that has not answered for minutes
                del self._changes[1]

    def add(
        self,
        start_ns: int,
        end_ns: int,
        energy_j: float,
        kind: str,
        power_w: float | None = None,
        others_j: float | None = None,
    ) -> None:
        """Divide `energy_j` [J] over [start, end), which it is cut by time where owners change."""
        span_ns = end_ns - start_ns
        if span_ns <= 0:
            return
        if self._kind and kind != "estimated":
            kind = self._kind
        mean_w = energy_j * NS_PER_S / span_ns
        if span_ns >= IDLE_LEAST_S * NS_PER_S:
            self.idle_w = mean_w if self.idle_w is None else min(self.idle_w, mean_w)
        while len(self._changes) > 1 and self._changes[1][0] <= start_ns:
            self._changes.pop(0)
        turns = [time_ns for time_ns, _ in self._changes if start_ns < time_ns < end_ns]
        edges = sorted({start_ns, *turns, *_days(start_ns, end_ns), end_ns})
        for begin_ns, until_ns in pairwise(edges):
            piece_j = mean_w * (until_ns - begin_ns) / NS_PER_S
            now = next(who for time_ns, who in reversed(self._changes) if time_ns <= begin_ns)
            label = "attributed" if turns and kind == "measured" else kind
            self._divide((begin_ns, until_ns), piece_j, label, power_w, now)

    def observe(self, utilisation: float | None, memory_b: float | None) -> None:
        """Note how the board runs, with the job that alone has it."""
        if ledger := self._sole():
            ledger.observe(utilisation, memory_b)

    def note(self, profile: Mapping[str, float]) -> None:
        """Note more of how the board runs, with the job that alone has it."""
        if ledger := self._sole():
            ledger.note(profile)

    def _sole(self) -> Ledger | None:
        """Return the ledger of the job that alone has the board; None where there is none."""
        owners = [claim.owner for claim in self.claims]
        return self._books.ledger(owners[0], self.device_id) if len(owners) == 1 else None

    def _divide(
        self, span: tuple[int, int], energy_j: float, kind: str, power_w: float | None, now: Claims
    ) -> None:
        idle_j = (self.idle_w or 0.0) * (span[1] - span[0]) / NS_PER_S
        divided_j = divided = 0.0
        for claim in now:
            whole = claim.part == WHOLE
            own_j = energy_j if whole else part_j(energy_j, idle_j, claim.part)
            label = kind if whole or kind == "estimated" else "attributed"
            self._books.enter(claim, span, own_j, label, power_w)
            divided_j, divided = divided_j + own_j, divided + claim.part.idle
        rest_j, idle = max(0.0, energy_j - divided_j), max(0.0, 1.0 - divided)
        if not now or rest_j > 1e-9 * energy_j:
            label = kind if not now or kind == "estimated" else "attributed"
            rest = Claim(NOBODY, self.device_id, Shares(idle, idle))
            self._books.enter(rest, span, rest_j, label, power_w)


class HostLedger(Ledger):
    """Divides a component of the host by the parts that are set before each reading."""

    __slots__ = ("_books", "parts")

    def __init__(self, device_id: str, schedule: Schedule, books: Books) -> None:
        super().__init__(device_id, schedule, _nothing)
        self.parts: Mapping[Owner, Shares] = {}
        """Of each job: its part of the energy, and of what is idle."""
        self._books = books

    def add(
        self,
        start_ns: int,
        end_ns: int,
        energy_j: float,
        kind: str,
        power_w: float | None = None,
        others_j: float | None = None,
    ) -> None:
        """Divide `energy_j` [J] over [start, end)."""
        if end_ns <= start_ns:
            return
        label = "attributed" if self.parts and kind == "measured" else kind
        everyone = {**self.parts, NOBODY: _left(self.parts)}
        edges = [start_ns, *_days(start_ns, end_ns), end_ns]
        for begin_ns, until_ns in pairwise(edges):
            piece_j = energy_j * (until_ns - begin_ns) / (end_ns - start_ns)
            for owner, part in everyone.items():
                own_w = None if power_w is None else power_w * part.dynamic
                claim = Claim(owner, self.device_id, part)
                span = begin_ns, until_ns
                self._books.enter(claim, span, piece_j * part.dynamic, label, own_w)


class WholeHost:
    """What `HostComponent` divides by: nothing, its ledger does."""

    def part(self) -> HostPart:
        """Return the whole."""
        return WHOLE_HOST

    def recorded(self) -> None:
        """Do nothing."""


def _left(parts: Mapping[Owner, Shares]) -> Shares:
    own, idle = (sum(part[number] for part in parts.values()) for number in (0, 1))
    return Shares(max(0.0, 1.0 - own), max(0.0, 1.0 - idle))


def _days(start_ns: int, end_ns: int) -> list[int]:
    day_ns = DAY_S * NS_PER_S
    return list(range((start_ns // day_ns + 1) * day_ns, end_ns, day_ns))


def _nothing(device_id: str, interval: Interval) -> None:
    """Emit nothing: the jobs' own ledgers do."""
