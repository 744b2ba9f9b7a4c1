"""The columns of a label table, by the names that people give them.

>>> guess_roles(("Annotator ID", "item", "score", "comment"))
{'worker': 'Annotator ID', 'task': 'item', 'label': 'score'}
"""

from collections.abc import Iterable

__all__ = ["guess_roles"]

NAMES = {
    "worker": "worker annotator labeler labeller rater judge user contributor respondent coder",
    "task": "task item example unit question document sample hit image",
    "label": "label answer response rating score class category choice annotation grade vote",
}  # each also with "id" or "name" behind it


def guess_roles(names: Iterable[str]) -> dict[str, str]:
    """Return worker, task and label with the column of each, where exactly one column can be meant.

    A column of a role's own name is that role's. Capitals, spaces, ``_``, ``-`` and a last "id" or
    "name" count for nothing; where two columns fit one role, the role is left out.

    >>> guess_roles(("user", "rater_id", "task", "Answer"))
    {'task': 'task', 'label': 'Answer'}
    """
    columns = tuple(names)
    found = {}
    for role, known in NAMES.items():
        fit = [role] if role in columns else [one for one in columns if _core(one) in known.split()]
        if len(fit) == 1:
            found[role] = fit[0]
    return found


def _core(name: str) -> str:
    """Return a column's name in small letters without separators and what says that it is a name."""
    bare = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    return bare.removesuffix("id").removesuffix("name")
