"""Batches put together by a thread while the device computes."""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def prefetched(
    make: Callable[[int], T], steps: Iterable[int], depth: int = 2
) -> Generator[tuple[int, T, float], None, None]:
    """Make what each step needs ahead of time, in order.

    Args:
        make: Makes it; runs in a thread, whose error is raised here.
        steps: The steps.
        depth: How many are kept ready.

    Yields:
        The step, what was made for it, and the seconds that were waited for it.
    """
    ready: queue.Queue[tuple[int, T | None, BaseException | None]] = queue.Queue(depth)
    closing = threading.Event()

    def put(item: tuple[int, T | None, BaseException | None]) -> None:
        while not closing.is_set():
            with suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return

    def work() -> None:
        step = -1
        try:
            for step in steps:
                if closing.is_set():
                    return
                put((step, make(step), None))
            put((-1, None, None))
        except BaseException as error:  # noqa: BLE001 - goes on in the other thread
            put((step, None, error))

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        while True:
            begun = time.perf_counter()
            step, made, error = ready.get()
            if error is not None:
                raise error
            if made is None:
                return
            yield step, made, time.perf_counter() - begun
    finally:
        closing.set()
        thread.join()
