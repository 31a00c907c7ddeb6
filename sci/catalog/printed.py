"""What tools print and people type around a name, and the name within it.

`bare_part` and `bare_machine` leave out what no name has: an index ("GPU 0: "), a label
("Product Name: ", "nvidia.com/gpu.product="), what follows in brackets or behind a comma (UUID,
compute capability, PCI ids). `readings` then yields what a name that is not known may be short
for, each with the memory [GB] that must fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_QUOTES = {ord(mark): None for mark in '`"\\'}
_QUOTED = re.compile(r".*\bname='(?P<name>[^']+)'.*", re.DOTALL)
_BEFORE = re.compile(
    r"device:\s*\d+,\s*name:\s*"
    r"|(?:\S*[\w.-]+/)?[\w. -]*(?:name|model|product|series|accelerator|sku|type|gpu)\s*=\s*"
    r"|(?:\S*[\w.-]+/)?[\w. -]*(?:name|model|product|series|accelerator|sku|type)\s*:\s+"
    r"|[a-z][a-z_./! -]*(?:\(\d?\))?:\s+"
    r"|(?:gpu|hcu|dcu|card|device)\[\d{1,2}\]\s*:\s*|\d{1,2}\s*=\s+"
    r"|(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d\s+"
    r"|[\w. -]*(?:controller|accelerators?|peripheral|co-processor)(?: \[\w{4}\])?:\s+"
    r"|(?:\[(?:ext_oneapi_)?(?:level_zero|opencl|cuda|hip)[\w:]*\])+\s*(?:[^,]*,\s*)?"
    r"|intel(?:\(r\))? (?:oneapi|opencl|level-zero)[^,]*,\s*"
    r"|\[\d{1,2}\]:?\s+|\d{1,2}:\s+"
    r"|(?:gpu|device|card|cuda|rocm|hip|vulkan|xpu|sycl)[\s#:]?\d{1,2}\s*:?\s+"
    r"|cudadevice\(id=\d+\)\s*",
    re.IGNORECASE,
)
"""An index, a label, an address or a class, as they stand before a name."""
_BEHIND = re.compile(
    r"\s+-\s+\d+\s?[mg]ib\b.*$"
    r"|\s*\((?:uuid|nvidia\)|intel corporation|compute cap|cc\b|gfx|radv|navi|llvm|sm_"
    r"|aco|rev\b|virtual|\d+-core)[^()]*\)?.*$"
    r"|,\s*(?:\d+\s*[mg]i?b\b|compute|cc\b|pci|gfx|vmm|driver|sm_|(?:19|20)\d\d\b).*$"
    r"|\s*\[(?:0x)?[0-9a-f]{4}(?::[0-9a-f]{4})?\]"
    r"|\s\d+\.\d+\.\d+(?:\s*\[[^\[\]]*\])?$"
    r"|\s(?:opencl\s)?\d\.\d(?:\sneo)?(?:\s*\[[^\[\]]*\])?$|\sopencl \d\.\d.*$"
    r"|[-_]vws$|\(nvgpu\)/integrated$",
    re.IGNORECASE,
)
"""What follows a name: ids, capabilities, versions."""
_GRES = re.compile(
    r"(?:--gres=|gres[/:=])*gpu[:/](?P<name>[a-z][^:()=]*)(?:[:=]\d+)?(?:\(.*\))?", re.IGNORECASE
)
"""A device in Slurm's lists: "gres/gpu:a100:4"."""
_ASKED_OF_SLURM = re.compile(r"--gres[= ](gpu:[a-z][\w.-]*(?::\d+)?)", re.IGNORECASE)
_REMARK = re.compile(r"\s*(?:[(\[,;|#=@+]|\s-\s|\bwith\b)\s*(?P<remark>.*)$")
_WORD_BEHIND = re.compile(r"\s(?:desktop|cuda|64-bit|macbook (?:air|pro))$", re.IGNORECASE)
_MEMORY_OF_ONE = re.compile(r"(?P<gb>\d+(?:\.\d+)?)\s?gi?b\b(?! total| unified)", re.IGNORECASE)
"""Memory in a remark behind a name: "(8GB each)"."""
_MEMORY_KIND = re.compile(r"\s(?:hbm|gddr|lpddr)\d\w*$", re.IGNORECASE)
_MEMORY = re.compile(r"(?P<name>.+?)[\s(,_-]+(?P<gb>\d+)\s?gi?b?\)?$", re.IGNORECASE)
_MAC = re.compile(r"\bM\d+(?: (?:Pro|Max|Ultra))?\b", re.IGNORECASE)
_BACKEND = re.compile(
    r"(?:(?:cuda|rocm|vulkan|metal|sycl|hip)\d+|(?:cuda )?gpu) \((?P<name>.+?)\)(?: - .*)?$", re.I
)
"""A device as llama.cpp names it: its number, and its name in brackets."""
_PCI = re.compile(
    r"\b(?:0x)?(10de|1002|8086|1da3|1d0f|1ac1|17cb)[:\s,]+(?:device\s+)?(?:0x)?([0-9a-f]{4})\b"
)
_PCI_OF_WINDOWS = re.compile(r"ven_(10de|1002|8086|1da3)&dev_([0-9a-f]{4})(?![0-9a-f])")
_PCI_OF_NVML = re.compile(r"\b0x([0-9a-f]{4})(10de|1002|8086)\b")
_PCI_ALONE = re.compile(r"\b(?:0x|device |id[:= ]+(?:0x)?)([0-9a-f]{4})\b")
_SUFFIX = re.compile(r"(?<=\d)(?=(?:ti|super|xtx?|gre)\b)", re.IGNORECASE)
_LINE = re.compile(r"\b(?:geforce\s+)?(?:rtx|gtx|quadro|tesla)\s+(?=[a-z]\d)", re.IGNORECASE)
_MACHINE_BEFORE = re.compile(
    r"--[a-z-]+[ =]+|(?:\S+/)?[a-z][a-z_./ -]*[a-z]\"?\s*[:=]\s*", re.IGNORECASE
)
_MACHINE_BEHIND = re.compile(
    r"[-_ ]\(?(?:spot|promo|on[-_ ]demand)\)?$|,?\s+(?:for|with|=)\s.*$|,\s.*$"
    r"|-(?:nolssd|lssd)$|\s*[(\[][^()\[\]]*[)\]]$",
    re.IGNORECASE,
)


def of_slurm(text: str) -> str:
    """Return the device that a line asks Slurm for: "gpu:a100:4" of "#SBATCH --gres=gpu:a100:4"."""
    option = _ASKED_OF_SLURM.search(text)
    return option[1] if option else text


@lru_cache(maxsize=8192)
def bare_part(name: str) -> str:
    """Return a device's name without what tools print around it."""
    text = name.strip().translate(_QUOTES)
    quoted = _QUOTED.fullmatch(text)
    text = quoted["name"] if quoted else of_slurm(text)
    inner = _GRES.fullmatch(text) or _BACKEND.fullmatch(text)
    if inner:
        return inner["name"]
    while (before := _BEFORE.match(text)) and before.end() < len(text):
        text = text[before.end() :]
    bare = _BEHIND.sub("", text)
    return bare.strip() or text


def pci_ids(name: str) -> frozenset[str]:
    """Return the PCI ids in a name, "10de:2330", or device ids alone, "74a1".

    NVML has the vendor's behind the device's: 0x233010DE.
    """
    low = name.lower()
    own = {f"{vendor}:{device}" for vendor, device in _PCI.findall(low)}
    own |= {f"{vendor}:{device}" for vendor, device in _PCI_OF_WINDOWS.findall(low)}
    own |= {f"{vendor}:{device}" for device, vendor in _PCI_OF_NVML.findall(low)}
    alone = set() if own else set(_PCI_ALONE.findall(low))
    return frozenset(own | alone)


def readings(name: str) -> Iterator[tuple[str, float | None]]:
    """Yield what a device's name that is not known may be short for, with its memory [GB].

    Without the kind of its memory, its plural's s, the Mac around an Apple chip, or its memory:
    that then is None where it must not fit, as Apple sells each chip with several.
    """
    text = bare_part(name)
    plain = _MEMORY_KIND.sub("", text)
    if plain != text:
        yield plain, None
    if re.search(r"\d{3}s$", plain, re.IGNORECASE):
        yield plain[:-1], None
    if _SUFFIX.search(plain):
        yield _SUFFIX.sub(" ", plain), None
    if _LINE.search(plain) and "[" not in plain:  # "RTX A30"; a name of these lines is NVIDIA's
        yield f"NVIDIA {_LINE.sub('', re.sub('^nvidia ', '', plain, flags=re.I))}", None
    chip = _MAC.search(plain)
    if chip and re.search(r"\b(?:i?mac|macbook|apple)", f"apple {plain}", re.IGNORECASE):
        rest = (plain[: chip.start()] + plain[chip.end() :]).strip()
        if re.fullmatch(r"(?:apple|arm64|i?mac\w*|pro|air|mini|studio|\d+\s?gb|\W)*", rest, re.I):
            yield f"Apple {chip[0]}", None
    memory = _MEMORY.fullmatch(plain)
    if memory:
        yield memory["name"], float(memory["gb"])
    if _WORD_BEHIND.search(plain):
        yield _WORD_BEHIND.sub("", plain), None
    remark = _REMARK.search(plain)
    if remark and any(map(str.isdigit, plain[: remark.start()])):
        gb = _MEMORY_OF_ONE.search(remark["remark"])
        before = plain[: remark.start()]
        yield before, float(gb["gb"]) if gb else None
        if memory := _MEMORY.fullmatch(before):
            yield memory["name"], float(memory["gb"])
        if chip and before.lower().startswith("apple"):
            yield f"Apple {chip[0]}", None


def bare_machine(name: str) -> str:
    """Return the name of a machine without labels, quotes and remarks behind it."""
    text = re.sub(r"\s+#.*$", "", name).strip().replace("`", "").strip("{} ")
    before = _MACHINE_BEFORE.match(text)
    text = (text[before.end() :] if before else text).strip("\"' ")
    while (bare := _MACHINE_BEHIND.sub("", text)) != text and bare:
        text = bare
    return text
