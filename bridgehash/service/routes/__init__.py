"""Routes of the service."""
