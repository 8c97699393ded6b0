"""Jobs side by side, as many as the machine has cores for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

SPARE = 2  # cores that are given out besides those that there are: jobs wait for drives, and for each other


@dataclass(frozen=True)
class Job:
    name: str
    cores: int
    after: tuple[str, ...]  # names of jobs that end first, if they are there
    action: Callable[[], object]


def run_jobs(jobs: Iterable[Job], cores: int) -> None:
    """In their order, where nothing has to be waited for."""
    waiting = list(jobs)
    running: dict[Future[object], Job] = {}
    with ThreadPoolExecutor(max_workers=cores + SPARE) as threads:
        while waiting or running:
            unfinished = {job.name for job in [*waiting, *running.values()]}
            for job in list(waiting):
                free = cores + SPARE - sum(min(other.cores, cores) for other in running.values())
                if unfinished.isdisjoint(job.after) and min(job.cores, cores) <= free:
                    waiting.remove(job)
                    running[threads.submit(job.action)] = job
            assert running, f"these wait for each other: {[job.name for job in waiting]}"
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                del running[future]
                future.result()
