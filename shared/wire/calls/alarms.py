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
    """Alarms by webhook, for operators: their server sends requests to the addresses given here."""

    create_alarm = Call(
        "operator",
        "POST /v1/studies/{study}/alarms",
        AlarmRequest,
        NewAlarmBody,
        """Send the alarms of a study to a webhook; its secret is shown this once.

        Messages are JSON, signed as Standard Webhooks specifies, sent at least once and repeated
        for three days.
        """,
        status=201,
        location="/v1/alarms/{alarm_id}",
    )

    list_alarms = Pages(
        "operator",
        "GET /v1/studies/{study}/alarms",
        AlarmBody,
        "List the webhooks of a study, the oldest first.",
    )

    get_alarm = Bare(
        "operator",
        "GET /v1/alarms/{alarm}",
        AlarmBody,
        "Show a webhook, and why it was disabled if it was.",
    )

    enable_alarm = Call(
        "operator",
        "PATCH /v1/alarms/{alarm}",
        AlarmChange,
        AlarmBody,
        "Enable a webhook that was disabled; messages that were given up are not sent.",
    )

    remove_alarm = Bare(
        "operator",
        "DELETE /v1/alarms/{alarm}",
        AlarmBody,
        "Remove a webhook with its messages, sent or not.",
    )

    test_alarm = Bare(
        "operator",
        "POST /v1/alarms/{alarm}/test",
        DeliveryBody,
        "Send a test message; the list of messages shows what came of it.",
        status=202,
        problems=("store-conflict",),
    )

    list_deliveries = Pages(
        "operator",
        "GET /v1/alarms/{alarm}/deliveries",
        DeliveryBody,
        "List the messages to a webhook, the newest first; those of 90 days are kept.",
    )
