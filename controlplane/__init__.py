"""The control plane: route revisions, audit trail, sessions administration and the view of replicas."""
