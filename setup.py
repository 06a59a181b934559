"""Packages by discovery: `dialect/` and `lowering/` lie beside `mlirtri/` and install inside of it."""

from setuptools import find_packages, setup


def packages_in(folder: str, name: str) -> list[str]:
    """The package `name` that lies in `folder`, and all packages below it."""
    return [name, *(f"{name}.{package}" for package in find_packages(folder))]


setup(
    packages=[
        *packages_in("mlirtri", "mlirtri"),
        *packages_in("dialect", "mlirtri.dialect"),
        *packages_in("lowering", "mlirtri.lowering"),
    ]
)
