"""`/v1/replicas`: what each gateway serves."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from common.rfc3339 import rfc3339
from controlplane.authentication import Allowed, Caller
from controlplane.documentation import JUDGING, outcomes
from controlplane.replicas.schemas import Arrival, Laggard, ReplicaItem, ReplicaPage
from controlplane.replicas.service import Arrived, ReplicasService
from controlplane.schemas import NoQuery

router = APIRouter(prefix="/v1/replicas", tags=["replicas"])

EXAMPLE_REPLICA = {
    "replica": "gateway-1",
    "revision": 7,
    "behind": 1,
    "lastError": "revision 8 of the shared state is not a valid route table: routes[0].upstream: is not a URL",
    "time": "2026-01-31T23:59:59.999Z",
    "ageMs": 1200,
}


def replicas_service(request: Request) -> ReplicasService:
    """The service of this application."""
    service: ReplicasService = request.app.state.replicas
    return service


Service = Annotated[ReplicasService, Depends(replicas_service)]


@router.get(
    "",
    operation_id="listReplicas",
    summary="What each replica serves",
    description="Gateways that read their table from a file only are not among them.",
    responses=outcomes(
        200,
        "Every replica that is alive.",
        {"items": [EXAMPLE_REPLICA], "nextCursor": None, "revision": 8},
        errors=("bad_request", *JUDGING),
    ),
)
async def list_replicas(
    service: Service, _: Annotated[Caller, Depends(Allowed("read", "operate", "config"))], __: NoQuery
) -> ReplicaPage:
    active, found = await service.view()
    items = [
        ReplicaItem(
            replica=one.heartbeat.replica,
            revision=one.heartbeat.revision,
            behind=one.behind,
            last_error=one.heartbeat.last_error or None,
            time=rfc3339(one.heartbeat.time_ms),
            age_ms=one.age_ms,
        )
        for one in found
    ]
    return ReplicaPage(items=items, next_cursor=None, revision=active)


def arrival_of(arrived: Arrived) -> Arrival:
    """How far a revision has come, as the API says it."""
    lagging = [
        Laggard(replica=one.replica, revision=one.revision, last_error=one.last_error or None)
        for one in arrived.lagging
    ]
    serving = [one.replica for one in arrived.serving]
    return Arrival(converged=arrived.converged, serving=serving, lagging=lagging)
