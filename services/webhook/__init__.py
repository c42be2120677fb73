"""Answers admission reviews and conversions of a kube-apiserver that is not ours, over HTTPS.

Consumes: AdmissionReview and ConversionReview (v1); of the control plane the customizations that a new one is compared
with, and the quotas of a namespace.
Produces: answers; with gate FederatedQuotaEnforcement the `overallUsed` of the quotas that a binding uses.
Owns: nothing. It decides by the same rules as the embedded API server, which needs no such service.
Never: writes the log; only what guards measure reads it. It answers while the log is away.
Every instance answers, none leads.
"""
