"""Which kernelspec the server's kernels are started from: the shipped one, or an installed one that is ours too."""

from __future__ import annotations

import sys

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.shipped import shipped_directory

SHIPPED = "sentinel"


class Specifications(KernelSpecManager):
    """Knows the shipped kernelspec as this program's own, and the installed ones."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return a kernelspec that runs Sentinel Kernel, and no other: code must not run outside a sandbox.

        Raises:
            SentinelError: there is none of that name, or it is another kernel's.

        """
        if kernel_name == SHIPPED:
            spec = KernelSpec.from_resource_dir(shipped_directory("kernelspec"))
            spec.argv = [sys.executable, *spec.argv[1:]]
            return spec
        try:
            spec = super().get_kernel_spec(kernel_name)
        except NoSuchKernel:
            raise SentinelError(
                f"There is no kernel {kernel_name!r}.", "`sentinel-kernel list` shows the installed ones."
            ) from None
        if "sentinel_kernel" not in spec.argv:
            raise SentinelError(
                f"The kernel {kernel_name!r} is no Sentinel kernel: its cells would run without a sandbox.",
                "`sentinel-kernel list` shows those that are.",
            )
        return spec
