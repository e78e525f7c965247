"""The maximum flow through a small network by shortest augmenting paths: a slow and simple reference for the tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping


def max_flow(edges: Mapping[tuple[str, str], int], source: str, sink: str) -> int:
    """Returns the maximum flow in whole numbers, by the algorithm of Edmonds and Karp."""
    room: dict[str, dict[str, int]] = {}
    for (start, end), capacity in edges.items():
        room.setdefault(start, {})[end] = capacity
        room.setdefault(end, {}).setdefault(start, 0)
    flow = 0
    while path := _shortest(room, source, sink):
        pushed = min(room[start][end] for start, end in path)
        for start, end in path:
            room[start][end] -= pushed
            room[end][start] += pushed
        flow += pushed
    return flow


def _shortest(room: Mapping[str, Mapping[str, int]], source: str, sink: str) -> list[tuple[str, str]]:
    came_from: dict[str, str] = {source: ""}
    line = deque([source])
    while line and sink not in came_from:
        here = line.popleft()
        for there, left in room[here].items():
            if left > 0 and there not in came_from:
                came_from[there] = here
                line.append(there)
    if sink not in came_from:
        return []
    path, here = [], sink
    while here != source:
        path.append((came_from[here], here))
        here = came_from[here]
    return path[::-1]
