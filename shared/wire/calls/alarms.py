"""Calls about alarms."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.alarms import (
    AlarmBody,
    AlarmChange,
    AlarmRequest,
    DeliveryBody,
    NewAlarmBody,
)


class Alarms:
    """Alarms by webhook, for operators: their server sends requests to the addresses given here.

    Attributes
    ----------
    create_alarm
        Send the alarms of a study to a webhook; its secret is shown this once.

        Messages are JSON, signed as Standard Webhooks specifies, sent at least once and repeated
        for three days.
    list_alarms
        List the webhooks of a study, the oldest first.
    get_alarm
        Show a webhook, and why it was disabled if it was.
    enable_alarm
        Enable a webhook that was disabled; messages that were given up are not sent.
    remove_alarm
        Remove a webhook with its messages, sent or not.
    test_alarm
        Send a test message; the list of messages shows what came of it.
    list_deliveries
        List the messages to a webhook, the newest first; those of 90 days are kept.
    """

    create_alarm = Call(
        "operator",
        "POST /v1/studies/{study}/alarms",
        AlarmRequest,
        NewAlarmBody,
        status=201,
        location="/v1/alarms/{alarm_id}",
    )
    list_alarms = Pages("operator", "GET /v1/studies/{study}/alarms", AlarmBody)
    get_alarm = Bare("operator", "GET /v1/alarms/{alarm}", AlarmBody)
    enable_alarm = Call("operator", "PATCH /v1/alarms/{alarm}", AlarmChange, AlarmBody)
    remove_alarm = Bare("operator", "DELETE /v1/alarms/{alarm}", AlarmBody)
    test_alarm = Bare(
        "operator",
        "POST /v1/alarms/{alarm}/test",
        DeliveryBody,
        status=202,
        problems="store-conflict",
    )
    list_deliveries = Pages("operator", "GET /v1/alarms/{alarm}/deliveries", DeliveryBody)
