"""Methods that make one declared call: each is a line here, in both clients."""

from __future__ import annotations

from sfumato.analyst.client.methods import found, listed, listed_of, of_one, of_two, plain
from sfumato.shared.wire.calls.alarms import Alarms
from sfumato.shared.wire.calls.analyses import Analyses
from sfumato.shared.wire.calls.batches import Batches
from sfumato.shared.wire.calls.campaigns import Campaigns
from sfumato.shared.wire.calls.decodes import Decodes
from sfumato.shared.wire.calls.devices import Devices
from sfumato.shared.wire.calls.keys import Keys
from sfumato.shared.wire.calls.publications import Publications
from sfumato.shared.wire.calls.schedules import Schedules
from sfumato.shared.wire.calls.sketches import Sketches
from sfumato.shared.wire.calls.snapshots import Snapshots
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.calls.tokens import Tokens


class Catalogue:
    """Methods that make one declared call."""

    find_study = found("study")
    study = of_one(Studies.get_study)
    advise = plain(Studies.advise_study)
    privacy = of_one(Studies.get_privacy)
    refusals = of_one(Studies.list_refusals)
    tokens = listed_of(Tokens.list_tokens)
    revoke_token = of_one(Tokens.revoke_token)
    sketches = listed_of(Sketches.list_sketches)

    snapshot_sums = of_one(Snapshots.get_snapshot)
    moments = of_one(Snapshots.get_moments)
    clusters = of_one(Snapshots.get_clusters)

    decodes = listed_of(Decodes.list_decodes)
    find_decode = found("decode")
    decode_state = of_one(Decodes.get_decode)
    cancel = of_one(Decodes.cancel_decode)

    analyses = listed_of(Analyses.list_analyses)
    find_analysis = found("analysis")
    analysis_state = of_one(Analyses.get_analysis)
    cancel_analysis = of_one(Analyses.cancel_analysis)
    accepted_changes = listed_of(Analyses.list_accepted_changes)

    begin_campaign = of_one(Campaigns.begin_campaign)
    campaign = of_one(Campaigns.get_campaign)
    next_phase = of_one(Campaigns.next_phase)

    find_device = found("device")
    device = of_one(Devices.get_device)
    exclude_device = of_one(Devices.exclude_device)
    revoke_device = of_one(Devices.revoke_device)
    keys = listed(Keys.list_keys)
    own_key = plain(Keys.get_own_key)
    audit = listed(Keys.list_audit)

    publications = listed_of(Publications.list_publications)
    identity = plain(Publications.get_identity)
    rotate_identity = plain(Publications.rotate_identity)

    create_schedule = of_one(Schedules.create_schedule)
    schedules = listed_of(Schedules.list_schedules)
    find_schedule = found("schedule")
    schedule = of_one(Schedules.get_schedule)
    remove_schedule = of_one(Schedules.remove_schedule)

    create_alarm = of_one(Alarms.create_alarm)
    alarms = listed_of(Alarms.list_alarms)
    find_alarm = found("alarm")
    alarm = of_one(Alarms.get_alarm)
    test_alarm = of_one(Alarms.test_alarm)
    remove_alarm = of_one(Alarms.remove_alarm)
    deliveries = listed_of(Alarms.list_deliveries)

    batches = listed_of(Batches.list_batches)
    batch = of_two(Batches.get_batch)
    open_batch = of_two(Batches.open_batch)
    admit_batch = of_two(Batches.admit_batch)
    set_batch_aside = of_two(Batches.set_batch_aside)
    give_batch_up = of_two(Batches.give_batch_up)
    suspects = of_one(Batches.find_suspects)
