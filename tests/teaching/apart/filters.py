"""Whether this system can refuse system calls; a process of its own tries it."""

from functools import cache
from types import SimpleNamespace

from numformer.backend import can_fork
from numformer.teaching.apart.system_calls import refuse_calls
from numformer.teaching.isolation import Child


@cache
def refuses_calls():
    if not can_fork():
        return False
    with Child(SimpleNamespace(tried=lambda: {"found": refuse_calls()})) as child:
        return child.ask(60, "tried")["found"]
