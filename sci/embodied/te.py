"""TE, the embodied carbon of accelerators and hosts: declared, published, or modelled.

Accelerators are modelled from the bottom up (model v1):
M = uplift x (k_die x sum(area x CPA(node) / Y(area)) + GB x f_mem + TDP x f_thermal + board) [kg],
cradle to gate, host excluded. The model was fitted on the eleven points it is checked against, so
its agreement with them (log sd 0.17) is a consistency check; the bands of tiers C and D are wider
for that reason. A default with a wide range replaces what is not known of a host: a usual amount of
memory per thread, a default for CPUs, published whole-server figures for an unknown host. Storage
is not counted, and `stages` says so. Every parameter, with its range and source, is a line of
embodied_model.csv.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from operator import add
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog, Cpu, Hardware, Instance
from gramwatt.sci.catalog.embodied_facts import Dies, Study
from gramwatt.sci.catalog.parameters import MODEL, Parameters, parameters
from gramwatt.sci.figures.document import Tier
from gramwatt.sci.figures.quantity import Quantity, of_sources
from gramwatt.sci.figures.units import G_PER_KG, cm2_from_mm2, g_from_kg

BOARD_STAGES = "accelerator board or module, cradle to gate, host and use excluded"
WAFER_STAGES = "wafer-scale system, cradle to gate, use excluded"
DECLARED_STAGES = "declared in the overlay, use excluded"
STUDY_BAND = 1.25
"""Usual range of a study that gives none: a quarter either way (docs/data-sources.md)."""
MANUFACTURING = "manufacturing, use excluded"
SOCKETS = "host:sockets"
"""The id of the number of sockets of an unknown CPU, as an input."""


class Embodied(Struct, frozen=True):
    """TE of a device or host [gCO2e] without the use phase; `stages` says what it covers.

    `includes_host` is true for the few published figures that already include the host's share:
    no host may be added to them.
    """

    te_g: Quantity
    tier: Tier
    stages: str
    includes_host: bool = False

    def scaled(self, share: float) -> Embodied:
        """Return TE of a share of it, or of several of it [gCO2e]."""
        return replace(self, te_g=self.te_g.scaled(share))


@lru_cache(maxsize=1024)
def accelerator_te(part: Hardware) -> Embodied | None:
    """Return TE of one device [gCO2e]: declared by the user, else published, else modelled.

    None where an input of the model is not known. Cached, because a comparison of parts asks for it
    several times for each.
    """
    if part.embodied_kg is not None:
        return _declared_te(part, part.embodied_kg)
    return _published_te(part.study) if part.study else _modelled_te(part)


class Board(Struct, frozen=True):
    """Inputs of the model for one board: dies, power [W] and memory [GB]."""

    dies: tuple[Dies, ...]
    power_w: float
    memory_gb: float
    memory_type: str


def murphy_yield(area_cm2: float, defects_per_cm2: float) -> float:
    """Return share of good dies by Murphy's model: ((1 - exp(-AD)) / AD)^2."""
    load = area_cm2 * defects_per_cm2
    return ((1 - math.exp(-load)) / load) ** 2


def board_kg(board: Board, k_die: float | None = None) -> float:
    """Return embodied carbon of a board by model v1 [kgCO2e]; `k_die` None is its own."""
    model = parameters()
    silicon = math.fsum(_die_kg(dies, model) for dies in board.dies)
    factor = model["k_die"] if k_die is None else k_die
    parts = (
        factor * silicon,
        board.memory_gb * model[_memory_key(board.memory_type)],
        board.power_w * model["f_thermal"],
        model["board"],
    )
    return model["uplift"] * math.fsum(parts)


def wafer_kg(process_nm: float, power_w: float) -> float:
    """Return embodied carbon of a wafer-scale system: a wafer, heat path and case [kgCO2e]."""
    model = parameters()
    silicon = model["k_die"] * model["wafer_area"] * model.cpa_kg_per_cm2(process_nm)
    heat = power_w * model["f_thermal"]
    return model["uplift"] * (silicon + heat) + model["wafer_case"]


def _declared_te(part: Hardware, kg: float) -> Embodied:
    """Return TE declared in the overlay, with its declared or else its tier's usual range."""
    bands = {"C": parameters()["band_c"], "D": parameters()["band_d"]}
    band = bands.get(part.embodied_tier, STUDY_BAND)
    low_kg = kg / band if part.embodied_low_kg is None else part.embodied_low_kg
    high_kg = kg * band if part.embodied_high_kg is None else part.embodied_high_kg
    low_g, value_g, high_g = map(g_from_kg, (low_kg, kg, high_kg))
    figure = of_sources(value_g, low_g, high_g, "gCO2e", "declared", part.own_sources)
    te = figure.as_input(f"te:{part.id}")
    return Embodied(te, part.embodied_tier, DECLARED_STAGES, part.embodied_includes_host)


def _published_te(study: Study) -> Embodied:
    kg, low_kg, high_kg, tier = study.figures
    low_g, value_g, high_g = map(g_from_kg, (low_kg, kg / study.devices, high_kg))
    source = f"{study.item}, {study.source}"
    figure = Quantity(value_g, low_g, high_g, "gCO2e", "catalog", source)
    stages = f"{study.boundary}, use excluded".replace(";", ",")
    return Embodied(figure.as_input(f"te:{study.id}"), tier, stages, study.includes_host)


def _modelled_te(part: Hardware) -> Embodied | None:
    inputs = part.inputs
    kilograms = _modelled_kg(part)
    if kilograms is None:
        return None
    tier: Tier = "D" if inputs.assumed else "C"
    band = parameters()["band_d" if inputs.assumed else "band_c"]
    value_g = g_from_kg(kilograms / part.devices_per_board)
    source = f"{MODEL}, tier {tier}" + (" (assumed inputs)" if inputs.assumed else "")
    low_g, high_g = value_g / band, value_g * (inputs.high_factor or band)
    sources = (source, *part.own_sources)
    figure = of_sources(value_g, low_g, high_g, "gCO2e", "estimated", sources)
    stages = WAFER_STAGES if part.is_system else BOARD_STAGES
    # One model errs alike on all parts that it knows as well.
    figure = figure.as_input(f"te:model:{tier}")
    return Embodied(figure, tier, stages, includes_host=part.is_system)


def _modelled_kg(part: Hardware) -> float | None:
    """Return the board's embodied carbon by the model [kgCO2e]; None without an input."""
    inputs, devices = part.inputs, part.devices_per_board

    def board_figure(assumed: float | None, per_device: float | None) -> float | None:
        if assumed is not None:
            return assumed
        return None if per_device is None else per_device * devices

    area = board_figure(inputs.die_area_mm2, part.die_area_mm2)
    count = board_figure(inputs.die_count, part.die_count)
    node = part.process_nm if inputs.process_nm is None else inputs.process_nm
    power = board_figure(inputs.power_w, part.tdp_w)
    memory = board_figure(inputs.memory_gb, part.memory_gb)
    if inputs.model == "wafer":
        return None if node is None or power is None else wafer_kg(node, power)
    if inputs.model == "none" or area is None or count is None or node is None:
        return None
    if power is None or memory is None:
        return None
    dies = (Dies(area, count, node), *inputs.extra_dies)
    return board_kg(Board(dies, power, memory, part.memory_type or ""))


def _die_kg(dies: Dies, given: Parameters) -> float:
    area_cm2 = cm2_from_mm2(dies.area_mm2 / dies.count)
    good = murphy_yield(area_cm2, given["defects_per_cm2"])
    return dies.count * area_cm2 * given.cpa_kg_per_cm2(dies.process_nm) / good


def _memory_key(memory_type: str) -> str:
    # What is neither HBM nor GDDR counts as LPDDR, whose factor lies near that of server DRAM.
    for kind in ("hbm", "gddr"):
        if memory_type.lower().startswith(kind):
            return f"f_mem_{kind}"
    return "f_mem_lpddr"


class Size(Struct, frozen=True):
    """What is seen of a host: threads and memory [GiB], None where not known."""

    threads: float | None = None
    memory_gib: float | None = None


def whole_computer_te(host_class: str) -> Embodied:
    """Return TE of the whole computer that a chip ("computer") or a small module ("edge") is."""
    key = "computer" if host_class == "computer" else "host_edge"
    stages = f"the whole computer that holds the part, {MANUFACTURING}"
    return Embodied(_grams(key), "D", stages, includes_host=True)


def server_accelerators() -> float:
    """Return number of accelerators in the server of the published figure."""
    return parameters()["gpu_host_devices"]


def host_share_te(part: Hardware | None, count: float = 1.0) -> Embodied | None:
    """Return TE beside so many devices where only their host's class is known [gCO2e].

    None for a part of a computer's own chip, which has nothing beside it.
    """
    host_class = part.host_class if part else "card"
    if host_class == "computer":
        return None
    shares = f"{count:g} {'share' if count == 1 else 'shares'}"
    tier: Tier
    if host_class == "server":
        devices = server_accelerators()
        stages = f"server for {devices:g} accelerators without them, {shares} of {devices:g}"
        figure, tier = _grams("gpu_host").scaled(count / devices), "C"
    else:
        # A board that the driver lists as two devices stands in one slot.
        boards = count / part.devices_per_board if part and host_class == "card" else count
        stages = f"usual host ({host_class}) without its accelerators, {shares}"
        figure, tier = _grams(f"host_{host_class}").scaled(boards), "D"
    return Embodied(figure, tier, f"{stages}, {MANUFACTURING}")


def shows_host(part: Hardware | None) -> bool:
    """Return whether threads and memory tell the size of the part's host.

    They do not for boards of a published server, and for modules, which hold both themselves.
    """
    return part is None or part.host_class in ("card", "cloud", "workstation")


def seen_host_te(
    usual: Embodied, size: Size, cpu: Cpu | None = None, *, server: bool = True
) -> Embodied:
    """Return TE of a host of accelerators by what is seen of it [gCO2e], without the accelerators.

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
    figure = of_sources(value, low, high, "gCO2e", "estimated", seen.te_g.sources)
    return replace(seen, te_g=figure.as_input("te:host:seen"))


def socket_te(cpu: Cpu | None) -> Embodied:
    """Return TE of one packaged CPU [gCO2e] by its die area, else a class default."""
    model = parameters()
    area_mm2 = cpu.die_area_mm2 if cpu else None
    tier: Tier
    if area_mm2 is None:
        mass, source, tier = model.quantity("cpu_default"), "class default", "D"
    else:
        by_area = model.quantity("cpu_per_mm2").scaled(area_mm2, "kg")
        mass, source, tier = model.quantity("cpu_base") + by_area, "by die area", "C"
    value_g = mass.scaled(G_PER_KG).value
    low_g, high_g = value_g * model["cpu_low_factor"], value_g * model["cpu_high_factor"]
    text = f"{MODEL}, CPU {source}"
    figure = Quantity(value_g, low_g, high_g, "gCO2e", "estimated", text)
    figure = figure.as_input(f"te:cpu:{tier}")
    return Embodied(figure, tier, f"packaged CPU, {MANUFACTURING}")


def cpu_te(cpu: Cpu | None, threads: float | None) -> Embodied:
    """Return TE of a host's CPUs [gCO2e].

    A known CPU counts by threads: 32 threads of a 64-thread part are half a socket, 128 are two.
    An unknown one counts as at least one default socket; the low end is by its threads.
    """
    socket = socket_te(cpu)
    return replace(socket, te_g=socket.te_g.times(_sockets(cpu, threads), "gCO2e"))


def dram_te(memory_gib: float) -> Embodied:
    """Return TE of a host's memory [gCO2e]; marketed GB are GiB."""
    return Embodied(_grams("dram").scaled(memory_gib), "C", f"DRAM, {MANUFACTURING}")


def host_te(cpu: Cpu | None, threads: float | None, memory_gib: float | None) -> Embodied:
    """Return TE of a machine without its accelerators [gCO2e]: CPUs, memory, case and assembly.

    A machine with fewer threads than one socket is taken as a slice of a server, case included.
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


def virtual_share(threads: float | None, memory_gib: float | None) -> tuple[float, Embodied] | None:
    """Return a virtual machine's share of a typical server, and TE of all of that [gCO2e].

    The share is the larger of those by threads and by memory, since a host is full when either is
    used up. The host is not known: the range holds shares by either, of small and of large servers.
    None where the machine is as large as a typical server, or its size is not known.
    """
    usual = parameters().quantity("cpu_default_threads")
    typical = host_te(None, usual.value, None)
    shares = _shares_of(usual.value, threads, memory_gib)
    if not shares or max(shares) >= 1:
        return None
    share, lows, highs = max(shares), list[float](), list[float]()
    for host_threads in (usual.low, usual.value, usual.high):
        te_g, of_host = (
            host_te(None, host_threads, None).te_g,
            [min(1.0, part) for part in _shares_of(host_threads, threads, memory_gib)],
        )
        lows.append(te_g.low * min(of_host))
        highs.append(te_g.high * max(of_host))
    low_g, high_g = min(lows) / share, max(highs) / share
    source = f"a typical server of {usual.value:g} threads ({usual.low:g} to {usual.high:g})"
    figure = Quantity(typical.te_g.value, low_g, high_g, "gCO2e", "estimated", source)
    return share, replace(typical, te_g=figure.as_input("te:host:virtual"), tier="D")


def _shares_of(host_threads: float, threads: float | None, memory_gib: float | None) -> list[float]:
    host_gib = host_threads * parameters()["dram_gib_per_thread"]
    pairs = [(threads, host_threads), (memory_gib, host_gib)]
    return [part / whole for part, whole in pairs if part]


def instance_host_te(catalog: Catalog, instance: Instance) -> Embodied | None:
    """Return TE of the fraction of the host that belongs to one device of an instance [gCO2e].

    See `host_fraction`. Where the host is not known it is the usual one of the device's class. None
    for a part that has no host beside it.
    """
    part = catalog.hardware(instance.hardware)
    usual, host = host_share_te(part), catalog.host_of(instance)
    fraction = host_fraction(instance, host)
    if usual is None or host is None or fraction is None:
        return usual.scaled(instance.share) if usual else None
    if host.id == instance.id and not shows_host(part):
        return usual
    whole, ends = usual.scaled((host.count or 1) * host.share), list[float]()
    if shows_host(part):
        # Storage, network and power supplies are not seen, so the range is no narrower than usual.
        whole = host_te(catalog.cpu_of(host), host.vcpu, host.host_memory_gib)
        ends = [end * instance.share for end in (usual.te_g.low, usual.te_g.high)]
    source = f"{fraction.value:.4g} of the host {host.id}, {whole.te_g.source}"
    value = whole.te_g.value * fraction.value
    ends += [value, whole.te_g.low * fraction.low, whole.te_g.high * fraction.high]
    sources = (source, *host.own_sources)
    figure = of_sources(value, min(ends), max(ends), "gCO2e", whole.te_g.kind, sources)
    return replace(whole, te_g=figure.as_input(f"te:host:{host.id}"))


def host_fraction(instance: Instance, host: Instance | None) -> Quantity | None:
    """Return the fraction of a host that belongs to one device of an instance [1].

    The mean of the fractions of its threads and of its memory, so that instances that fill a host
    add up to it, whatever their sizes; the range holds either, and the fraction of its devices,
    which alone counts where no size is known. None where the host or its count is not known.
    """
    if host is None or host.count is None:
        return None
    count = instance.count or 1
    by_devices = instance.share / (host.count * host.share)
    pairs = [(instance.vcpu, host.vcpu), (instance.host_memory_gib, host.host_memory_gib)]
    sizes = [min(1.0, size / whole) / count for size, whole in pairs if size and whole]
    value, ends = (math.fsum(sizes) / len(sizes) if sizes else by_devices), (by_devices, *sizes)
    source = f"{instance.id} by threads and memory of {host.id}, by devices in the range"
    figure = Quantity(value, min(ends), max(ends), "1", "derived", source)
    return figure.as_input(f"host-fraction:{instance.id}")


def _memory_te(sockets: Quantity, cpu: Cpu | None, memory_gib: float | None) -> Embodied:
    if memory_gib is not None:
        return dram_te(memory_gib)
    per_socket = cpu.threads if cpu else parameters()["cpu_default_threads"]
    gib = parameters().quantity("dram_gib_per_thread").times(sockets.scaled(per_socket), "GiB")
    return Embodied(
        _grams("dram").times(gib, "gCO2e"), "D", f"DRAM of assumed size, {MANUFACTURING}"
    )


def _sockets(cpu: Cpu | None, threads: float | None) -> Quantity:
    """Return number of sockets of the host; below 1 for a part of one."""
    if cpu is not None:
        count = 1.0 if threads is None else threads / cpu.threads
        return Quantity.exact(count, "sockets", "derived", f"threads of {cpu.id}")
    if threads is None:
        return Quantity.exact(1.0, "sockets", "estimated", "one socket assumed")
    share = threads / parameters()["cpu_default_threads"]
    most = max(1.0, share)
    figure = Quantity(most, share, most, "sockets", "estimated", "threads of an unknown CPU")
    return figure.as_input(SOCKETS)


def _at_most_one(sockets: Quantity) -> Quantity:
    value, low, high = (min(1.0, end) for end in (sockets.value, sockets.low, sockets.high))
    return Quantity(value, low, high, sockets.unit, sockets.kind, sockets.source).as_input(SOCKETS)


def _grams(key: str) -> Quantity:
    """Return a parameter in kg or kg per unit, converted to [gCO2e] or [gCO2e per unit]."""
    return parameters().quantity(key).scaled(G_PER_KG, "gCO2e")


def hardware_doc(part: Hardware) -> dict[str, Any]:
    """Return an accelerator with its TE [gCO2e]; null where not known."""
    return part.to_doc() | _te_doc(accelerator_te(part))


def cpu_doc(cpu: Cpu) -> dict[str, Any]:
    """Return a CPU with the TE of one socket [gCO2e]."""
    return cpu.to_doc() | _te_doc(socket_te(cpu))


def _te_doc(found: Embodied | None) -> dict[str, Any]:
    return {
        "embodied_g": found.te_g.bare() if found else None,
        "embodied_tier": found.tier if found else None,
        "embodied_stages": found.stages if found else None,
        "embodied_includes_host": found.includes_host if found else None,
    }
