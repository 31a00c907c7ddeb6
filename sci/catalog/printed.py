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

# Patterns are compiled where a name first needs them: all take 10 ms, and most jobs need none.
_QUOTES = {ord(mark): None for mark in '`"\\'}
_QUOTED = r"(?s).*\bname='(?P<name>[^']+)'.*"
_BEFORE = (
    r"(?i)device:\s*\d+,\s*name:\s*"
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
    r"|cudadevice\(id=\d+\)\s*"
)
"""An index, a label, an address or a class, as they stand before a name."""
_BEHIND = (
    r"(?i)\s+-\s+\d+\s?[mg]ib\b.*$"
    r"|\s*\((?:uuid|nvidia\)|intel corporation|compute cap|cc\b|gfx|radv|navi|llvm|sm_"
    r"|aco|rev\b|virtual|\d+-core)[^()]*\)?.*$"
    r"|,\s*(?:\d+\s*[mg]i?b\b|compute|cc\b|pci|gfx|vmm|driver|sm_|(?:19|20)\d\d\b).*$"
    r"|\s*\[(?:0x)?[0-9a-f]{4}(?::[0-9a-f]{4})?\]"
    r"|\s\d+\.\d+\.\d+(?:\s*\[[^\[\]]*\])?$"
    r"|\s(?:opencl\s)?\d\.\d(?:\sneo)?(?:\s*\[[^\[\]]*\])?$|\sopencl \d\.\d.*$"
    r"|[-_]vws$|\(nvgpu\)/integrated$"
)
"""What follows a name: ids, capabilities, versions."""
_GRES = r"(?i)(?:--gres=|gres[/:=])*gpu[:/](?P<name>[a-z][^:()=]*)(?:[:=]\d+)?(?:\(.*\))?"
"""A device in Slurm's lists: "gres/gpu:a100:4"."""
_ASKED_OF_SLURM = r"(?i)--gres[= ](gpu:[a-z][\w.-]*(?::\d+)?)"
_REMARK = r"\s*(?:[(\[,;|#=@+]|\s-\s|\bwith\b)\s*(?P<remark>.*)$"
_WORD_BEHIND = r"(?i)\s(?:desktop|cuda|64-bit|macbook (?:air|pro))$"
_MEMORY_OF_ONE = r"(?i)(?P<gb>\d+(?:\.\d+)?)\s?gi?b\b(?! total| unified)"
"""Memory in a remark behind a name: "(8GB each)"."""
_MEMORY_KIND = r"(?i)\s(?:hbm|gddr|lpddr)\d\w*$"
_MEMORY = r"(?i)(?P<name>.+?)[\s(,_-]+(?P<gb>\d+)\s?gi?b?\)?$"
_MAC = r"(?i)\bM\d+(?: (?:Pro|Max|Ultra))?\b"
_BACKEND = (
    r"(?i)(?:(?:cuda|rocm|vulkan|metal|sycl|hip)\d+|(?:cuda )?gpu) \((?P<name>.+?)\)(?: - .*)?$"
)
"""A device as llama.cpp names it: its number, and its name in brackets."""
_PCI = r"\b(?:0x)?(10de|1002|8086|1da3|1d0f|1ac1|17cb)[:\s,]+(?:device\s+)?(?:0x)?([0-9a-f]{4})\b"
_PCI_OF_WINDOWS = r"ven_(10de|1002|8086|1da3)&dev_([0-9a-f]{4})(?![0-9a-f])"
_PCI_OF_NVML = r"\b0x([0-9a-f]{4})(10de|1002|8086)\b"
_PCI_ALONE = r"\b(?:0x|device |id[:= ]+(?:0x)?)([0-9a-f]{4})\b"
_SUFFIX = r"(?i)(?<=\d)(?=(?:ti|super|xtx?|gre)\b)"
_LINE = r"(?i)\b(?:geforce\s+)?(?:rtx|gtx|quadro|tesla)\s+(?=[a-z]\d)"
_MACHINE_BEFORE = r"(?i)--[a-z-]+[ =]+|(?:\S+/)?[a-z][a-z_./ -]*[a-z]\"?\s*[:=]\s*"
_MACHINE_BEHIND = (
    r"(?i)[-_ ]\(?(?:spot|promo|on[-_ ]demand)\)?$|,?\s+(?:for|with|=)\s.*$|,\s.*$"
    r"|-(?:nolssd|lssd)$|\s*[(\[][^()\[\]]*[)\]]$"
)


def of_slurm(text: str) -> str:
    """Return the device that a line asks Slurm for: "gpu:a100:4" of "#SBATCH --gres=gpu:a100:4"."""
    option = re.search(_ASKED_OF_SLURM, text)
    return option[1] if option else text


@lru_cache(maxsize=8192)
def bare_part(name: str) -> str:
    """Return a device's name without what tools print around it."""
    text = name.strip().translate(_QUOTES)
    quoted = re.fullmatch(_QUOTED, text)
    text = quoted["name"] if quoted else of_slurm(text)
    inner = re.fullmatch(_GRES, text) or re.fullmatch(_BACKEND, text)
    if inner:
        return inner["name"]
    while (before := re.match(_BEFORE, text)) and before.end() < len(text):
        text = text[before.end() :]
    bare = re.sub(_BEHIND, "", text)
    return bare.strip() or text


def pci_ids(name: str) -> frozenset[str]:
    """Return the PCI ids in a name, "10de:2330", or device ids alone, "74a1".

    NVML has the vendor's behind the device's: 0x233010DE.
    """
    low = name.lower()
    own = {f"{vendor}:{device}" for vendor, device in re.findall(_PCI, low)}
    own |= {f"{vendor}:{device}" for vendor, device in re.findall(_PCI_OF_WINDOWS, low)}
    own |= {f"{vendor}:{device}" for device, vendor in re.findall(_PCI_OF_NVML, low)}
    alone = set() if own else set(re.findall(_PCI_ALONE, low))
    return frozenset(own | alone)


def readings(name: str) -> Iterator[tuple[str, float | None]]:
    """Yield what a device's name that is not known may be short for, with its memory [GB].

    Without the kind of its memory, its plural's s, the Mac around an Apple chip, or its memory:
    that then is None where it must not fit, as Apple sells each chip with several.
    """
    text = bare_part(name)
    plain = re.sub(_MEMORY_KIND, "", text)
    if plain != text:
        yield plain, None
    if re.search(r"\d{3}s$", plain, re.IGNORECASE):
        yield plain[:-1], None
    if re.search(_SUFFIX, plain):
        yield re.sub(_SUFFIX, " ", plain), None
    if re.search(_LINE, plain) and "[" not in plain:  # "RTX A30"; a name of these lines is NVIDIA's
        yield f"NVIDIA {re.sub(_LINE, '', re.sub('^nvidia ', '', plain, flags=re.I))}", None
    chip = re.search(_MAC, plain)
    if chip and re.search(r"\b(?:i?mac|macbook|apple)", f"apple {plain}", re.IGNORECASE):
        rest = (plain[: chip.start()] + plain[chip.end() :]).strip()
        if re.fullmatch(r"(?:apple|arm64|i?mac\w*|pro|air|mini|studio|\d+\s?gb|\W)*", rest, re.I):
            yield f"Apple {chip[0]}", None
    memory = re.fullmatch(_MEMORY, plain)
    if memory:
        yield memory["name"], float(memory["gb"])
    if re.search(_WORD_BEHIND, plain):
        yield re.sub(_WORD_BEHIND, "", plain), None
    remark = re.search(_REMARK, plain)
    if remark and any(map(str.isdigit, plain[: remark.start()])):
        gb = re.search(_MEMORY_OF_ONE, remark["remark"])
        before = plain[: remark.start()]
        yield before, float(gb["gb"]) if gb else None
        if memory := re.fullmatch(_MEMORY, before):
            yield memory["name"], float(memory["gb"])
        if chip and before.lower().startswith("apple"):
            yield f"Apple {chip[0]}", None


def bare_machine(name: str) -> str:
    """Return the name of a machine without labels, quotes and remarks behind it."""
    text = re.sub(r"\s+#.*$", "", name).strip().replace("`", "").strip("{} ")
    before = re.match(_MACHINE_BEFORE, text)
    text = (text[before.end() :] if before else text).strip("\"' ")
    while (bare := re.sub(_MACHINE_BEHIND, "", text)) != text and bare:
        text = bare
    return text
