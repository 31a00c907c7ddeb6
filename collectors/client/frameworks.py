"""Which framework a training process has loaded: a look at `sys.modules`, never an import.

Standard library only, some microseconds. Precision is not told: autocast is over when a job ends,
and the default type of a tensor says nothing about what the work was done in.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FRAMEWORKS = {
    "vllm": ("vllm", ("torch",)),
    "tensorrt_llm": ("tensorrt-llm", ("torch", "tensorrt")),
    "torch_neuronx": ("neuron", ("torch",)),
    "llama_cpp": ("llama.cpp", ()),
    "torch": ("pytorch", ()),
    "tensorflow": ("tensorflow", ()),
    "jax": ("jax", ()),
    "tensorrt": ("tensorrt", ()),
    "mlx.core": ("mlx", ()),
}
"""Modules, the framework each one means (as sci.advice.constraints.support names it), and the
modules it is built on, which then mean nothing of their own."""
VERSION_LENGTH = 64


def loaded(modules: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`framework` and `versions` of the frameworks in use, empty without any.

    With two frameworks of which neither is built on the other, `framework` is left out: which one
    did the work cannot be told.
    """
    held = sys.modules if modules is None else modules
    versions = {name: text for name in FRAMEWORKS if (text := _version(held.get(name)))}
    below = {part for name in versions for part in FRAMEWORKS[name][1]}
    named = [FRAMEWORKS[name][0] for name in versions if name not in below]
    found: dict[str, Any] = {"versions": versions} if versions else {}
    return found | ({"framework": named[0]} if len(named) == 1 else {})


def _version(module: Any) -> str | None:
    # Any other look at a module that loads itself when it is touched would be an import.
    try:
        version = object.__getattribute__(module, "__dict__").get("__version__")
    except AttributeError:
        return None
    return str(version)[:VERSION_LENGTH] if isinstance(version, str) and version else None
