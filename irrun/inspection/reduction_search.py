"""Delta debugging: the search for a minimal set of layers that fails."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from irrun.errors import IrrunError
from irrun.inspection.parts import Frame, Part
from irrun.inspection.reduction_trials import Trial
from irrun.ir.model import Model

__all__ = ["Progress", "Search"]

#: Receives the number of remaining layers, the number of layers of the model, and the number of trials.
Progress = Callable[[int, int, int], None]

#: The ids of layers that are kept or removed together.
Group = tuple[int, ...]


class Search:
    """The search for a minimal set of layers.

    Args:
        trial: Decides whether a part fails.
        whole: The whole model, which fails.
        max_trials: The maximum number of parts to test; None for no limit.
        progress: Called after each trial.

    Attributes:
        best: The smallest part that fails so far.
        message: How that part fails.
        trials: The number of parts that were tested.
    """

    def __init__(self, trial: Trial, whole: Part, max_trials: int | None, progress: Progress | None) -> None:
        self.trial = trial
        self.best = whole
        self.message = trial.message
        self.trials = 1
        self.total = len(whole.keys)
        self.max_trials = max_trials
        self.progress = progress
        self.results: dict[tuple[str, int, frozenset[int]], bool] = {}

    def descend(self, frame: Frame) -> None:
        """Reduce a failing graph, then the bodies of a remaining layer."""
        atoms = frame.atoms
        suspects = self.trial.find_suspects(Model(frame.graph, frame.model.weights))
        suspected = [group for group in atoms if suspects.intersection(group)]
        if suspected and self._fails(frame, suspected):
            atoms = suspected
        atoms = self._minimize(frame, atoms)
        for owner in (frame.layers[layer_id] for group in atoms for layer_id in group):
            frames = list(frame.enter(owner)) if owner.bodies else []
            for inner in reversed(frames) if self.trial.is_error else frames:
                if self._fails(inner, inner.atoms):
                    self.descend(inner)
                    return

    def _minimize(self, frame: Frame, atoms: list[Group]) -> list[Group]:
        """Return a minimal failing set of layers.

        Args:
            frame: The graph.
            atoms: Layers that fail, in the order of execution.
        """
        while len(atoms) > 1:
            middle = len(atoms) // 2
            if self._fails(frame, atoms[middle:]):
                atoms = atoms[middle:]
            elif self._fails(frame, atoms[:middle]):
                atoms = atoms[:middle]
            else:
                break
        if len(atoms) > 2:
            atoms = self._trim(frame, atoms)
        return self._remove_chunks(frame, atoms)

    def _trim(self, frame: Frame, atoms: list[Group]) -> list[Group]:
        """Remove layers from the end and from the start by bisection."""
        low, high = 1, len(atoms)
        while low < high:
            middle = (low + high) // 2
            if self._fails(frame, atoms[:middle]):
                high = middle
            else:
                low = middle + 1
        atoms = atoms[:high]
        low, high = 0, len(atoms) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._fails(frame, atoms[middle:]):
                low = middle
            else:
                high = middle - 1
        return atoms[low:]

    def _remove_chunks(self, frame: Frame, atoms: list[Group]) -> list[Group]:
        """Remove smaller and smaller chunks, as delta debugging does."""
        count = 2
        while len(atoms) > 1:
            bounds = [len(atoms) * i // count for i in range(count + 1)]
            chunks = list(pairwise(bounds))
            rest = next(
                (
                    remaining
                    for start, end in chunks
                    for remaining in [atoms[:start] + atoms[end:]]
                    if self._fails(frame, remaining)
                ),
                None,
            )
            if rest is not None:
                atoms, count = rest, max(count - 1, 2)
            elif count >= len(atoms):
                break
            else:
                count = min(2 * count, len(atoms))
        return atoms

    def _fails(self, frame: Frame, atoms: list[Group]) -> bool:
        """Return whether some layers of a graph fail. A part that cannot run does not count as failing."""
        ids = frozenset(layer_id for group in atoms for layer_id in group)
        key = (frame.prefix, id(frame.graph), ids)
        if key not in self.results:
            self.results[key] = self._test(frame, ids)
        return self.results[key]

    def _test(self, frame: Frame, ids: frozenset[int]) -> bool:
        if self.max_trials is not None and self.trials >= self.max_trials:
            return False
        try:
            part = frame.make_part(ids)
            if part is None:
                return False
            self.trials += 1
            is_failure = self.trial.fails(part)
        except IrrunError:
            is_failure = False
        else:
            if is_failure:
                self.best, self.message = part, self.trial.message
        if self.progress is not None:
            self.progress(len(self.best.keys), self.total, self.trials)
        return is_failure
