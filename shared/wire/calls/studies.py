"""Calls about studies."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.advice import AdviceBody, AdviceRequest
from sfumato.shared.wire.objects.answers import PrivacyBody
from sfumato.shared.wire.objects.devices import PlanBody
from sfumato.shared.wire.objects.results import FrequenciesBody, UtilityBody
from sfumato.shared.wire.objects.studies import (
    ChangeRequest,
    CreatedBody,
    ReferenceBody,
    RefusalsBody,
    StudyBody,
    StudyRequest,
    WithdrawnBody,
)


class Studies:
    """Studies, their refusals, privacy and utility.

    Attributes
    ----------
    create_study
        Create a study from a name and a plan; 200 if it exists already.

        409 where a study of another name has the plan; the answer names that study. A device that
        takes part in both spends its budget twice; `allow_same_plan` creates the study
        nevertheless. 409 too where the study exists with another search box than the one given.
        `warnings` lists doubts about the plan, such as an epsilon that hardly protects.
    list_studies
        List studies in the order of creation, all or those whose names begin with a text.
    get_study
        Show a study; a device that signs the request sees only the life cycle.

        The ETag of a device's answer changes with life cycle and search box only, so that devices
        can poll often.
    change_study
        Open or close a study, or change the search box of its later decodes.

        A closed study takes late sketches until `accept_until`. Decodes that exist keep the search
        box that they were requested with. `If-Match` compares what can be changed here alone:
        sketches that arrive meanwhile do not make it stale.
    withdraw_study
        Withdraw a study, at once and for good, and remove all that it holds.

        Every later call on it, uploads included, is answered with `study-withdrawn`. The same name
        and plan cannot become a study again. What decodes of other studies have taken over from a
        second look stays in them: withdraw these too.
    list_refusals
        Count refused sketches by problem, and devices that refuse the plan by their owner's rule.
    get_privacy
        Return the study's statement of privacy.
    get_utility
        Estimate the utility of all sketches of a study.

        With a number of clusters, `band` predicts the quality of a decode of Fourier features.
    get_plan
        Show a study's plan, as JSON or, with `Accept: application/cbor`, as the hashed bytes.

        The study's identity is the hash of its name and the plan's digest, so that anyone who knows
        the identity can verify the plan.
    get_frequencies
        Show the frequencies, which anyone can draw again from the seed in the plan.
    advise_study
        Recommend a plan for a study that does not exist yet, and predict its quality.

        Nothing is stored: `POST /v1/studies` with the plan creates the study. Where the outlook is
        not good, the answer says which changes would do.
    find_reference
        Find the only object that a name or first digits refer to.

        Where none fits, or several do, the problem lists the candidates.
    """

    create_study = Call(
        "operator",
        "POST /v1/studies",
        StudyRequest,
        CreatedBody,
        status=201,
        may_exist=True,
        location="/v1/studies/{study_id}",
        leads_to="study",
        problems="helper-unreachable plan-invalid plan-mismatch privacy-invalid store-conflict "
        "study-withdrawn unsupported-version",
    )
    list_studies = Pages(
        "viewer",
        "GET /v1/studies",
        StudyBody,
        query="beginning",
        leads_to="study",
        keeps_to_study=True,
    )
    get_study = Bare("reader", "GET /v1/studies/{study}", StudyBody, is_conditional=True)
    change_study = Call(
        "operator",
        "PATCH /v1/studies/{study}",
        ChangeRequest,
        StudyBody,
        problems="precondition-failed precondition-required",
    )
    withdraw_study = Bare("operator", "DELETE /v1/studies/{study}", WithdrawnBody, query="confirm")
    list_refusals = Bare("viewer", "GET /v1/studies/{study}/refusals", RefusalsBody)
    get_privacy = Bare(
        "public", "GET /v1/studies/{study}/privacy", PrivacyBody, problems="access-denied"
    )
    get_utility = Bare("viewer", "GET /v1/studies/{study}/utility", UtilityBody, query="n_clusters")
    get_plan = Bare("public", "GET /v1/studies/{study}/plan", PlanBody, is_conditional=True)
    get_frequencies = Bare(
        "public", "GET /v1/studies/{study}/frequencies", FrequenciesBody, is_conditional=True
    )
    advise_study = Call("analyst", "POST /v1/advice", AdviceRequest, AdviceBody)
    find_reference = Bare(
        "viewer",
        "GET /v1/references",
        ReferenceBody,
        query="kind reference",
        keeps_to_study=True,
        problems="not-found request-invalid",
    )
