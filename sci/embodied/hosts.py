"""Embodied carbon TE of hosts, and of accelerators that the catalog does not have.

Every parameter is a line of embodied_model.csv with its range and source. A default with a wide
range replaces what is not known of a host: a usual amount of memory per thread, a default for
CPUs, published whole-server figures for an unknown host. Storage is not counted, and `stages` says
so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG
from gramwatt.sci.catalog.catalog import Catalog, Cpu, Hardware, Instance
from gramwatt.sci.catalog.embodied_facts import Tier
from gramwatt.sci.catalog.parameters import parameters
from gramwatt.sci.embodied.te import Embodied

MANUFACTURING = "manufacturing, use excluded"


@dataclass(frozen=True, slots=True)
class Size:
    """What is seen of a host: threads and memory [GiB], None where not known."""

    threads: float | None = None
    memory_gib: float | None = None


def stand_in_te(part: Hardware | None) -> Embodied:
    """TE for a part without a figure, or for one that is not in the catalog [gCO2e].

    Chips that are made for one computer, and small modules, count as the whole computer.
    """
    if part is not None and part.host_class in ("computer", "edge"):
        key = "computer" if part.host_class == "computer" else "host_edge"
        stages = f"the whole computer that holds the part, {MANUFACTURING}"
        return Embodied(_grams(key), "D", stages, includes_host=True)
    return Embodied(_grams("unknown_accelerator"), "D", f"any accelerator, {MANUFACTURING}")


def server_accelerators() -> float:
    """Number of accelerators in the server of the published figure."""
    return parameters()["gpu_host_devices"]


def host_share_te(part: Hardware | None, count: float = 1.0) -> Embodied | None:
    """TE of what stands beside so many devices where only their host's class is known [gCO2e].

    None for a part of a computer's own chip, which has nothing beside it.
    """
    found = part.host_class if part else "card"
    if found == "computer":
        return None
    shares = f"{count:g} {'share' if count == 1 else 'shares'}"
    tier: Tier
    if found == "server":
        devices = server_accelerators()
        stages = f"server for {devices:g} accelerators without them, {shares} of {devices:g}"
        figure, tier = _grams("gpu_host").scaled(count / devices), "C"
    else:
        # A board that the driver lists as two devices stands in one slot.
        boards = count / part.devices_per_board if part and found == "card" else count
        stages = f"usual host ({found}) without its accelerators, {shares}"
        figure, tier = _grams(f"host_{found}").scaled(boards), "D"
    return Embodied(figure, tier, f"{stages}, {MANUFACTURING}")


def shows_host(part: Hardware | None) -> bool:
    """Whether threads and memory tell the size of the part's host.

    They do not for boards of a published server, and for modules, which hold both themselves.
    """
    return part is None or part.host_class in ("card", "cloud", "workstation")


def seen_host_te(
    usual: Embodied, size: Size, cpu: Cpu | None = None, *, server: bool = True
) -> Embodied:
    """TE of a host of accelerators by what is seen of it [gCO2e], without the accelerators.

    `usual` is the sum of their `host_share_te`. Storage, network and power supplies are not seen,
    and a virtual machine is a slice of a host, so the range never is narrower than the usual one;
    and of a `server`, fewer threads than one socket has are a slice no smaller than the usual.
    """
    if cpu is None and size == Size():
        return usual
    seen = host_te(cpu, size.threads, size.memory_gib)
    value, low, high = seen.te_g.value, seen.te_g.low, seen.te_g.high
    if server and _sockets(cpu, size.threads).low < 1:
        value = max(value, usual.te_g.value)
    low, high = min(low, usual.te_g.low), max(value, high, usual.te_g.high)
    figure = Quantity(value, low, high, "gCO2e", "estimated", seen.te_g.source)
    return replace(seen, te_g=figure)


def socket_te(cpu: Cpu | None) -> Embodied:
    """TE of one packaged CPU [gCO2e] by its die area, a class default where that is not known."""
    given = parameters()
    area_mm2 = cpu.die_area_mm2 if cpu else None
    tier: Tier
    if area_mm2 is None:
        mass, source, tier = given.quantity("cpu_default"), "class default", "D"
    else:
        by_area = given.quantity("cpu_per_mm2").scaled(area_mm2, "kg")
        mass, source, tier = given.quantity("cpu_base") + by_area, "by die area", "C"
    value_g = mass.scaled(G_PER_KG).value
    low_g, high_g = value_g * given["cpu_low_factor"], value_g * given["cpu_high_factor"]
    text = f"embodied model v1, CPU {source}"
    figure = Quantity(value_g, low_g, high_g, "gCO2e", "estimated", text)
    return Embodied(figure, tier, f"packaged CPU, {MANUFACTURING}")


def cpu_te(cpu: Cpu | None, threads: float | None) -> Embodied:
    """TE of a host's CPUs [gCO2e].

    A known CPU counts by threads: 32 threads of a 64-thread part are half a socket, 128 are two.
    An unknown one counts as at least one default socket; the low end is by its threads.
    """
    socket = socket_te(cpu)
    return replace(socket, te_g=socket.te_g.times(_sockets(cpu, threads), "gCO2e"))


def dram_te(memory_gib: float) -> Embodied:
    """TE of a host's memory [gCO2e]; marketed GB are GiB."""
    return Embodied(_grams("dram").scaled(memory_gib), "C", f"DRAM, {MANUFACTURING}")


@lru_cache(maxsize=1024)
def host_te(cpu: Cpu | None, threads: float | None, memory_gib: float | None) -> Embodied:
    """TE of a machine without its accelerators [gCO2e]: CPUs, memory, case and assembly.

    A machine with fewer threads than one socket is taken as a slice of a server, case included.
    Cached, because a fleet's jobs run on the same few hosts.
    """
    if cpu is None and threads is None and memory_gib is None:
        return Embodied(_grams("host_unknown"), "D", f"a server of unknown size, {MANUFACTURING}")
    sockets = _sockets(cpu, threads)
    parts = [cpu_te(cpu, threads), _memory_te(sockets, cpu, memory_gib)]
    case = (_grams("case") + _grams("assembly")).times(_at_most_one(sockets), "gCO2e")
    figure = reduce(add, (part.te_g for part in parts), case)
    tier: Tier = "D" if any(part.tier == "D" for part in parts) else "C"
    stages = f"CPU, DRAM, case and assembly, {MANUFACTURING}, storage of unknown size left out"
    return Embodied(figure, tier, stages)


def instance_host_te(catalog: Catalog, instance: Instance) -> Embodied | None:
    """TE of the share of the host that belongs to one device of an instance [gCO2e].

    It is share/ToR of the host's CPUs, memory and case, by devices; the range holds the share by
    threads and by memory too. Where the host is not known, or does not tell more than its class,
    it is that of the class. None for a part that has no host beside it.
    """
    part = catalog.hardware(instance.hardware)
    usual, host = host_share_te(part), catalog.host_of(instance)
    if usual is None or host is None or host.count is None or not shows_host(part):
        return usual.scaled(instance.share) if usual else None
    by_devices = instance.share / (host.count * host.share)
    shares = [by_devices, *_other_shares(instance, host)]
    cpu, size = catalog.cpu_of(host), Size(host.vcpu, host.host_memory_gib)
    whole = seen_host_te(usual.scaled(host.count * host.share), size, cpu, server=False)
    figure = whole.te_g.scaled(by_devices)
    source = f"{by_devices:.4g} of the host {host.cited}, {figure.source}"
    low, high = whole.te_g.low * min(shares), whole.te_g.high * max(shares)
    figure = Quantity(figure.value, min(low, figure.low), high, "gCO2e", figure.kind, source)
    return replace(whole, te_g=figure)


def _other_shares(instance: Instance, host: Instance) -> list[float]:
    """Shares of the host's threads and of its memory for each device of an instance."""
    pairs = [(instance.vcpu, host.vcpu), (instance.host_memory_gib, host.host_memory_gib)]
    count = instance.count or 1
    return [min(1.0, part / whole) / count for part, whole in pairs if part and whole]


def _memory_te(sockets: Quantity, cpu: Cpu | None, memory_gib: float | None) -> Embodied:
    if memory_gib is not None:
        return dram_te(memory_gib)
    per_socket = cpu.threads if cpu else parameters()["cpu_default_threads"]
    gib = parameters().quantity("dram_gib_per_thread").times(sockets.scaled(per_socket), "GiB")
    return Embodied(
        _grams("dram").times(gib, "gCO2e"), "D", f"DRAM of assumed size, {MANUFACTURING}"
    )


def _sockets(cpu: Cpu | None, threads: float | None) -> Quantity:
    """Number of sockets of the host; below 1 for a part of one."""
    if cpu is not None:
        count = 1.0 if threads is None else threads / cpu.threads
        return Quantity.exact(count, "sockets", "derived", f"threads of {cpu.id}")
    if threads is None:
        return Quantity.exact(1.0, "sockets", "estimated", "one socket assumed")
    share = threads / parameters()["cpu_default_threads"]
    most = max(1.0, share)
    return Quantity(most, share, most, "sockets", "estimated", "threads of an unknown CPU")


def _at_most_one(sockets: Quantity) -> Quantity:
    value, low, high = (min(1.0, end) for end in (sockets.value, sockets.low, sockets.high))
    return Quantity(value, low, high, sockets.unit, sockets.kind, sockets.source)


def _grams(key: str) -> Quantity:
    """A parameter in kg or kg per unit, converted to [gCO2e] or [gCO2e per unit]."""
    return parameters().quantity(key).scaled(G_PER_KG, "gCO2e")
