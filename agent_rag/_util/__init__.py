"""What no user imports: extras, the synchronous bridge, HTTP."""
