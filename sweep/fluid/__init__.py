"""The hydrodynamic limit of the network, N → ∞."""
