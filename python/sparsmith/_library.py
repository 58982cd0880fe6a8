"""The shared library of the package, its operators in PyTorch, and the command-line programs."""

import ctypes
import json
import os
import pathlib

import torch

_HERE = pathlib.Path(__file__).resolve().parent


class SparsmithError(RuntimeError):
    """An error of sparsmith, with what, where, why and what to do."""


def _folder(name: str) -> pathlib.Path:
    """``bin`` or ``lib`` of the installed package, or of the tree that $SPARSMITH_ROOT names."""
    root = os.environ.get("SPARSMITH_ROOT")
    return (pathlib.Path(root) if root else _HERE) / name


def program() -> str:
    """The path of the ``sparsmith`` command."""
    path = _folder("bin") / "sparsmith"
    if not path.is_file():
        raise SparsmithError(f"{path} is missing: install the wheel again, or set SPARSMITH_ROOT to an installed tree")
    return str(path)


def _load() -> ctypes.CDLL:
    path = _folder("lib") / "libsparsmith_torch.so"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise SparsmithError(f"{path} cannot be loaded: {error}") from error
    text, pointer, size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in [
        ("error", text, []),
        ("version", text, []),
        ("register", ctypes.c_int, []),
        ("open", pointer, [text, ctypes.c_int, ctypes.c_int, ctypes.c_int64]),
        ("close", None, [pointer]),
        ("describe", text, [pointer]),
        ("read", ctypes.c_int, [pointer, size, pointer]),
        ("matrix", ctypes.c_int, [pointer, size, pointer, pointer, pointer]),
        ("check", ctypes.c_int, [ctypes.c_int64, pointer, size]),
    ]:
        function = getattr(library, "sparsmith_torch_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def _error() -> SparsmithError:
    return SparsmithError(_library.sparsmith_torch_error().decode(errors="replace"))


if _library.sparsmith_torch_register() != 0:
    raise _error()

version: str = _library.sparsmith_torch_version().decode()


class OpenFile:
    """A tuned file, mapped and checked; its plans are registered. ``updatable``: plans of all operators, for new values.
    ``moving_block``: unless 0, for other patterns too, of blocks of this side."""

    def __init__(self, path: str, trusted: bool, updatable: bool, moving_block: int) -> None:
        self._handle = None
        self._handle = _library.sparsmith_torch_open(os.fsencode(path), int(trusted), int(updatable), moving_block)
        if not self._handle:
            raise _error()
        self.description = json.loads(_library.sparsmith_torch_describe(self._handle))

    def packed(self, index: int) -> torch.Tensor:
        """The packed bytes of a weight: uint8 on the CPU."""
        tensor = torch.empty(self.description["weights"][index]["packed_bytes"], dtype=torch.uint8)
        if _library.sparsmith_torch_read(self._handle, index, tensor.data_ptr()) != 0:
            raise _error()
        return tensor

    def pattern(self, index: int, values: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Row offsets (int64) and column indices (int32) of a weight, on the CPU. ``values``: float32 [nnz], takes the values."""
        weight = self.description["weights"][index]
        offsets = torch.empty(weight["shape"][0] + 1, dtype=torch.int64)
        columns = torch.empty(weight["nnz"], dtype=torch.int32)
        if _library.sparsmith_torch_matrix(self._handle, index, offsets.data_ptr(), columns.data_ptr(),
                                           None if values is None else values.data_ptr()) != 0:
            raise _error()
        return offsets, columns

    def __del__(self) -> None:
        if self._handle:
            _library.sparsmith_torch_close(self._handle)


def check_packed(plan: int, packed: torch.Tensor) -> None:
    """Raises unless kernels may read ``packed`` (CPU, contiguous) as the weight of ``plan``."""
    if packed.dtype != torch.uint8:  # a copy into the layer would convert the numbers that were checked
        raise SparsmithError(f"the packed bytes of a weight are torch.uint8, not {packed.dtype}: the state is of another layer")
    if _library.sparsmith_torch_check(plan, packed.data_ptr(), packed.numel()) != 0:
        raise _error()
