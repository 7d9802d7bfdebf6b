"""Tests of the controllers and the kubelet, on a store under the virtual clock."""
