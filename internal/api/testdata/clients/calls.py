"""Calls the API by the client that openapi-python-client makes of /openapi.yaml. Whatever is required there is required by it."""

import os

from duetime_client import Client
from duetime_client.api.duetime_v_1_task_service import (
    duetime_v_1_task_service_cancel as cancel,
    duetime_v_1_task_service_list as list_,
    duetime_v_1_task_service_reschedule as reschedule,
    duetime_v_1_task_service_schedule as schedule,
)
from duetime_client.models import (
    CancelRequest, Error, ListRequest, ListResponse, NewTask, Reason, RescheduleRequest, ScheduleRequest, ScheduleResponse, State,
)

api = Client(base_url=os.environ["DUETIME_API"])

new = NewTask(kind="order.expire", owner="python", payload={"order": 42}, due_in="600s")
made = schedule.sync(client=api, body=ScheduleRequest(task=new))
assert isinstance(made, ScheduleResponse), made
assert made.task.state is State.STATE_PENDING and made.task.payload == {"order": 42}, made

misspelt = reschedule.sync(client=api, body=RescheduleRequest(task_id=made.task.task_id, due_in="10m"))
assert isinstance(misspelt, Error), misspelt
violation = misspelt.details[0].debug.field_violations[0]
assert violation.field == "due_in" and violation.description.endswith('did you mean "600s"?'), violation

stale = cancel.sync(client=api, body=CancelRequest(task_id=made.task.task_id, version="9"))
assert isinstance(stale, Error) and stale.details[0].debug.reason is Reason.STALE_VERSION, stale

listed = list_.sync(client=api, body=ListRequest(owner="python", state=State.STATE_PENDING))
assert isinstance(listed, ListResponse) and [task.task_id for task in listed.tasks] == [made.task.task_id], listed

try:
    NewTask(kind="order.expire")
except TypeError:
    print("openapi-python-client: 4 calls")
else:
    raise AssertionError("a task needs no owner")
