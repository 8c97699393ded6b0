"""A state of the optimizer that is swapped out, as a script sees it: it has its length, and its content when asked."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from penstock._core import checksum
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.errors import ArgumentError, Error


class SwappedState(torch.Tensor):
    """Takes no memory. What is done with it is done with its content, which is read for that, and written where it has
    changed. Where a view of the content is left, the tensor is one in memory from then on; the swapper takes that back
    before it next uses the sub-group.
    """

    group: weakref.ref[SubGroup]
    state_name: str
    cast: Callable[[SwappedState, torch.dtype], None] | None = None  # while the optimizer's load_state_dict() runs

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in _OF_THE_FORM:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if func is torch.Tensor.to and kwargs and "device" in kwargs and isinstance(args[0], cls) and args[0].cast:
            args[0].cast(args[0], kwargs.get("dtype", args[0].dtype))
            return args[0]
        used: dict[int, _Content] = {}

        def content(value: Any) -> Any:
            if not isinstance(value, cls):
                return value
            if id(value) not in used:
                used[id(value)] = _Content(value)
            return used[id(value)].tensor

        named = {name: _each(content, value) for name, value in (kwargs or {}).items()}
        result = func(*(_each(content, value) for value in args), **named)
        for one in used.values():
            one.leave(() if func in _COPYING else _pytree.tree_leaves(result))
        states = {id(one.tensor): one.state for one in used.values()}
        return _each(lambda value: states.get(id(value), value), result)

    def set_(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Does not come through __torch_function__."""
        swap_in(self, _Content(self).tensor)
        return self.set_(*args, **kwargs)


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """Of a value, or of those in a list."""
    return type(value)(map(function, value)) if type(value) in (list, tuple) else function(value)


class _Content:
    """Of a state, in memory while a function runs."""

    def __init__(self, state: SwappedState) -> None:
        self.state = state
        self.group, self.name = state.group(), state.state_name
        if self.group is None or not self.group.has_content(self.name):
            raise ArgumentError(f"the optimizer's state '{self.name}' is none any more: its engine has given it up")
        self.group.complete(self.name)
        with torch.inference_mode(False):
            self.tensor = self.group.read(self.name, state.dtype)
        self.before, self.checksum = self._version(), checksum(self.tensor)

    def leave(self, results: Sequence[Any]) -> None:
        """Raises what a write raises. Collectives, apply_() and map_() change a content without counting it: its bytes
        say.
        """
        if any(self._is_seen_through(result) for result in results):
            swap_in(self.state, self.tensor)
        elif self._version() != self.before or checksum(self.tensor) != self.checksum:
            assert self.group is not None
            expect_length(self.group, self.name, self.tensor)
            self.group.put(self.name, self.tensor.detach())

    def _version(self) -> tuple[int, int]:
        return self.tensor._version, self.tensor.data_ptr()

    def _is_seen_through(self, result: Any) -> bool:
        if result is self.tensor or isinstance(result, _PLAIN):
            return False
        if not torch.is_tensor(result):
            return True  # an array of NumPy
        return bool(result.untyped_storage().data_ptr() == self.tensor.untyped_storage().data_ptr())


def swap_out(state: torch.Tensor, group: SubGroup, name: str) -> None:
    """Takes the memory of a state, or of a master, which is empty then. The object stays the same. A state that has a
    content is a SwappedState then.
    """
    if isinstance(state, SwappedState):
        return
    if name == MASTER or type(state) is not torch.Tensor or not group.has_content(name):
        state.data = plain_tensors.empty(0, state.dtype)
        return
    show_form(state, group, name)
    state.__class__ = SwappedState
    assert isinstance(state, SwappedState)
    state.group, state.state_name = weakref.ref(group), name
    group.shown[name] = weakref.ref(state)


def show_form(state: torch.Tensor, group: SubGroup, name: str) -> None:
    """The state has the content's type and length, and no memory. What reads it past __torch_function__ (torch.tensor,
    torch.vmap) gets NaN: zeros could be moments.
    """
    dtype = group.dtypes[name]
    nothing = float("nan") if dtype.is_floating_point or dtype.is_complex else 0
    form = plain_tensors.empty(0, dtype).new_full((), nothing).expand(group.numel)
    with torch._C.DisableTorchFunctionSubclass():
        state.data = form


def swap_in(state: torch.Tensor, content: torch.Tensor) -> None:
    if isinstance(state, SwappedState):
        for ours in SwappedState.__annotations__:  # torch would pickle them with the tensor
            vars(state).pop(ours, None)
        state.__class__ = torch.Tensor  # type: ignore[assignment]
    state.data = content


def detach(group: SubGroup, name: str, but: torch.Tensor | None = None) -> None:
    """Before the content is given up, or another takes its place: the tensor has it in memory, where the script has put
    it aside. but: the tensor of the next content, which may be the same one.
    """
    state = group.shown.pop(name, lambda: None)()
    if isinstance(state, SwappedState) and state is not but and group.has_content(name):
        swap_in(state, _Content(state).tensor)


def _no_group() -> None:
    """In place of the reference to the group: what a reference says to one that is no more."""


def put_aside(group: SubGroup, names: Iterable[str]) -> None:
    """Before contents are exchanged for those of a checkpoint; the optimizer has let go of its tensors. An error's
    traceback may hold some as well: what cannot be read any more is given up.
    """
    for name in names:
        shown = group.shown.get(name, lambda: None)
        try:
            detach(group, name)
        except Error:
            if isinstance(state := shown(), SwappedState):
                state.group = _no_group  # type: ignore[assignment]


@contextlib.contextmanager
def loaded(states: Sequence[SwappedState], cast: Callable[[SwappedState, torch.dtype], None]) -> Iterator[None]:
    """While the optimizer's load_state_dict() takes them over. cast: in the place of torch's, which would have all of
    them in memory.
    """
    for state in states:
        state.cast = cast
    try:
        yield
    finally:
        for state in states:
            state.cast = None


def expect_own(state: SwappedState, group: SubGroup, name: str) -> None:
    """Errors: it is the tensor of another state."""
    if state.group() is not group or state.state_name != name:
        raise ArgumentError(
            f"the optimizer's state '{name}' of sub-group {group.key} is the tensor of '{state.state_name}' of another "
            "place, which is swapped out: put a clone() of it there"
        )


def expect_length(group: SubGroup, name: str, content: torch.Tensor) -> None:
    """Errors: `content` has another length than the state."""
    if content.numel() != group.numel:
        raise ArgumentError(
            f"'{name}' of the optimizer's sub-group {group.key} has {content.numel()} elements now and had "
            f"{group.numel} before: penstock cannot swap a state that changes its size. Use an optimizer whose "
            'states keep theirs, or "device": "cpu" for offload_optimizer'
        )


_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.Size)
_METHODS = "dim element_size is_complex is_floating_point is_pinned nelement numel size __len__".split()
_PROPERTIES = (
    "device dtype grad grad_fn is_cpu is_cuda is_leaf is_meta is_sparse itemsize layout nbytes ndim requires_grad shape"
).split()
# What needs no content.
_OF_THE_FORM = frozenset(
    {
        *(getattr(torch.Tensor, name) for name in _METHODS),
        *(getattr(torch.Tensor, name).__get__ for name in _PROPERTIES),
        *(torch.is_complex, torch.is_floating_point, torch.numel),
    }
)
# What gives a copy that is no tensor, or a text.
_COPYING = frozenset({getattr(torch.Tensor, name) for name in ("__reduce_ex__", "__deepcopy__", "__repr__", "tolist")})
