"""How long an event loop is held, whatever else the machine does meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable


async def longest_block(work: Awaitable[object], *, tick_s: float = 0.001) -> float:
    """Run `work` and say how long the loop was held at most, in seconds.

    A pause counts as the smaller of wall time and CPU time of this process between two turns of the loop: a process
    that the machine lets wait takes no CPU, and one that computes in threads of its own while the loop turns takes no
    pause.
    """
    longest = 0.0
    task = asyncio.ensure_future(work)
    wall, cpu = time.perf_counter(), time.process_time()
    while not task.done():
        await asyncio.sleep(tick_s)
        now_wall, now_cpu = time.perf_counter(), time.process_time()
        longest = max(longest, min(now_wall - wall - tick_s, now_cpu - cpu))
        wall, cpu = now_wall, now_cpu
    await task
    return longest
