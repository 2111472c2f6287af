"""The protocol between device and aggregator, version 1: messages, payloads, problems.

Importable by every package. ``README.md`` beside this file describes the protocol for those who
write it in another language, ``sketch.cddl`` and ``enrolment.cddl`` the bytes.
"""

from sfumato.shared.wire.answers import AnswerReader, read_problem, read_retry_after
from sfumato.shared.wire.enrolment import (
    encode_proof_input,
    encode_rotation_input,
    verify_proof,
)
from sfumato.shared.wire.enrolment_code import (
    CODE_PREFIX,
    EnrolmentCode,
    decode_enrolment_code,
    encode_enrolment_code,
    is_enrolment_code,
    make_page_address,
)
from sfumato.shared.wire.http_signature import (
    CLOCK_LEEWAY_S,
    RequestSignature,
    format_time,
    parse_request_signature,
    sign_request,
    verify_request,
)
from sfumato.shared.wire.identities import (
    API_KEY,
    compute_study_id,
    device_id_of,
    encode_stream_id,
    is_api_key,
    require_public_key,
)
from sfumato.shared.wire.message import (
    SKETCH_MEDIA_TYPE,
    STREAM_NAME_RULE,
    SketchHeader,
    SketchMessage,
    compute_sketch_id,
    decode_header,
    decode_message,
    encode_header,
    encode_message,
    is_stream_name,
    verify_header,
)
from sfumato.shared.wire.payload import PayloadForm, decode_payload, encode_payload
from sfumato.shared.wire.problems import (
    PROBLEM_MEDIA_TYPE,
    DeviceAction,
    Problem,
    ProblemType,
    error_from_problem,
    problem_document,
    problem_type_of,
    problem_types,
)
from sfumato.shared.wire.published import (
    RESULT_MEDIA_TYPE,
    UNUSABLE,
    PublishedResult,
    SignedResult,
    compute_key_id,
    decode_published,
    encode_endorsement_input,
    encode_published,
    verify_endorsement,
)

__all__ = [
    "API_KEY",
    "CLOCK_LEEWAY_S",
    "CODE_PREFIX",
    "PROBLEM_MEDIA_TYPE",
    "RESULT_MEDIA_TYPE",
    "SKETCH_MEDIA_TYPE",
    "STREAM_NAME_RULE",
    "UNUSABLE",
    "AnswerReader",
    "DeviceAction",
    "EnrolmentCode",
    "PayloadForm",
    "Problem",
    "ProblemType",
    "PublishedResult",
    "RequestSignature",
    "SignedResult",
    "SketchHeader",
    "SketchMessage",
    "compute_key_id",
    "compute_sketch_id",
    "compute_study_id",
    "decode_enrolment_code",
    "decode_header",
    "decode_message",
    "decode_payload",
    "decode_published",
    "device_id_of",
    "encode_endorsement_input",
    "encode_enrolment_code",
    "encode_header",
    "encode_message",
    "encode_payload",
    "encode_proof_input",
    "encode_published",
    "encode_rotation_input",
    "encode_stream_id",
    "error_from_problem",
    "format_time",
    "is_api_key",
    "is_enrolment_code",
    "is_stream_name",
    "make_page_address",
    "parse_request_signature",
    "problem_document",
    "problem_type_of",
    "problem_types",
    "read_problem",
    "read_retry_after",
    "require_public_key",
    "sign_request",
    "verify_endorsement",
    "verify_header",
    "verify_proof",
    "verify_request",
]
