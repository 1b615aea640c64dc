"""The gateways that are alive, by what they last said of themselves, beside the revision that they should serve."""
