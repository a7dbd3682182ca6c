"""Audits of a trace (semantics 8): fidelity of its recorded policy, its look, and its router."""

from replay.audit.router import RouterAudit, Sample, audit_router
from replay.audit.whole import Audit, audit

__all__ = ["Audit", "RouterAudit", "Sample", "audit", "audit_router"]
