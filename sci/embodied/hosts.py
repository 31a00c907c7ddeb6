"""Embodied carbon TE of hosts, and of accelerators that the catalog does not have.

Every parameter is a line of embodied_model.csv with its range and source. A default with a wide
range replaces what is not known of a host: a usual amount of memory per thread, a default for
CPUs, published whole-server figures for an unknown host. Storage is not counted, and `stages` says
so.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add

from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG
from gramwatt.sci.catalog.catalog import Catalog, Cpu, Instance
from gramwatt.sci.catalog.embodied_facts import Tier
from gramwatt.sci.catalog.parameters import parameters
from gramwatt.sci.embodied.te import Embodied

MAKING = "manufacturing, use excluded"


def unknown_accelerator_te() -> Embodied:
    """TE of an accelerator that the catalog does not have [gCO2e], from two published sources."""
    return Embodied(_grams("unknown_accelerator"), "D", f"any accelerator, {MAKING}")


def server_accelerators() -> float:
    """Number of accelerators in the server of the published figure."""
    return parameters()["gpu_host_devices"]


def gpu_host_te_per_accelerator() -> Embodied:
    """TE of one accelerator's share of its server [gCO2e]: 5700 kg (3000 to 6500) over 8."""
    return host_share_te(1.0)


def host_share_te(accelerators: float) -> Embodied:
    """TE of the share of a server that belongs to so many accelerators [gCO2e]."""
    devices = server_accelerators()
    shares = f"{accelerators:g} {'share' if accelerators == 1 else 'shares'} of {devices:g}"
    stages = f"server for {devices:g} accelerators without them, {shares}, {MAKING}"
    return Embodied(_grams("gpu_host").scaled(accelerators / devices), "C", stages)


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
    return Embodied(figure, tier, f"packaged CPU, {MAKING}")


def cpu_te(cpu: Cpu | None, threads: float | None) -> Embodied:
    """TE of a host's CPUs [gCO2e].

    A known CPU counts by threads: 32 threads of a 64-thread part are half a socket, 128 are two.
    An unknown one counts as at least one default socket; the low end is by its threads.
    """
    socket = socket_te(cpu)
    return replace(socket, te_g=socket.te_g.times(_sockets(cpu, threads), "gCO2e"))


def dram_te(memory_gib: float) -> Embodied:
    """TE of a host's memory [gCO2e]; marketed GB are GiB."""
    return Embodied(_grams("dram").scaled(memory_gib), "C", f"DRAM, {MAKING}")


def host_te(cpu: Cpu | None, threads: float | None, memory_gib: float | None) -> Embodied:
    """TE of a machine without its accelerators [gCO2e]: CPUs, memory, case and assembly.

    A machine with fewer threads than one socket is taken as a slice of a server, case included.
    """
    if cpu is None and threads is None and memory_gib is None:
        return Embodied(_grams("host_unknown"), "D", f"a server of unknown size, {MAKING}")
    sockets = _sockets(cpu, threads)
    parts = [cpu_te(cpu, threads), _memory_te(sockets, cpu, memory_gib)]
    case = (_grams("case") + _grams("assembly")).times(_at_most_one(sockets), "gCO2e")
    figure = reduce(add, (part.te_g for part in parts), case)
    tier: Tier = "D" if any(part.tier == "D" for part in parts) else "C"
    stages = f"CPU, DRAM, case and assembly, {MAKING}, storage of unknown size left out"
    return Embodied(figure, tier, stages)


def instance_host_te(catalog: Catalog, instance: Instance) -> Embodied:
    """TE of the share of the host that belongs to one device of an instance [gCO2e].

    It is share/ToR of the host's CPUs, memory and case. The share of the published server of eight
    is used where the host is not known, and for parts that are only sold in such servers.
    """
    host = catalog.host_of(instance)
    if host is None or host.count is None or catalog.hardware(instance.hardware).in_server:
        return gpu_host_te_per_accelerator().scaled(instance.share)
    share = instance.share / (host.count * host.share)
    part = host_te(catalog.cpu_of(host), host.vcpu, host.host_memory_gib).scaled(share)
    source = f"{share:.4g} of the host {host.cited}, {part.te_g.source}"
    return replace(part, te_g=part.te_g.sourced(source))


def _memory_te(sockets: Quantity, cpu: Cpu | None, memory_gib: float | None) -> Embodied:
    if memory_gib is not None:
        return dram_te(memory_gib)
    per_socket = cpu.threads if cpu else parameters()["cpu_default_threads"]
    gib = parameters().quantity("dram_gib_per_thread").times(sockets.scaled(per_socket), "GiB")
    return Embodied(_grams("dram").times(gib, "gCO2e"), "D", f"DRAM of assumed size, {MAKING}")


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
