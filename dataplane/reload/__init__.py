"""Where the route table comes from, and how a new one replaces the running one (§12.3).

    file changed -> read and compile (in a thread) -> Snapshot -> one assignment
                 -> refused: reported, nothing changes

One task watches; requests read `current` and keep what they got. A file that is missing or invalid at start leaves
`current` None until it becomes valid.
"""
