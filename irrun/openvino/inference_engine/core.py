"""`IECore` and `IEPlugin`: reading and loading of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irrun.openvino.config import parse_device
from irrun.openvino.inference_engine.executable import ExecutableNetwork, get_metric
from irrun.openvino.inference_engine.network import IENetwork
from irrun.openvino.version import VERSION, Version

__all__ = ["IECore", "IEPlugin"]


class IECore:
    """Reads and loads networks.

    Args:
        xml_config_file: The plugins of OpenVINO, which irrun does not use.
    """

    def __init__(self, xml_config_file: str = "") -> None:
        self._config: dict[str, dict[str, Any]] = {}

    @property
    def available_devices(self) -> list[str]:
        """The devices: only "CPU"."""
        return ["CPU"]

    def read_network(self, model: Any, weights: Any = "", init_from_buffer: bool = False) -> IENetwork:
        """Read a network of IR v2 to v11.

        Args:
            model: The path of the .xml, or its content as bytes.
            weights: The path of the .bin, or its content as bytes; by default the .bin next to the .xml.
            init_from_buffer: Whether the arguments are bytes; they are recognized anyway.

        Raises:
            RuntimeError: A file cannot be read or is invalid.
        """
        return IENetwork(model, weights, init_from_buffer)

    def load_network(
        self, network: Any, device_name: str = "CPU", config: Mapping[str, Any] | None = None, num_requests: int = 1
    ) -> ExecutableNetwork:
        """Prepare a network for execution.

        Args:
            network: A network, or the path of an .xml.
            device_name: "CPU" or "AUTO".
            config: Properties.
            num_requests: The number of requests; 0 for the number that keeps the processor busy.

        Raises:
            RuntimeError: The device is not available, a property is unknown, or the network is invalid.
            ValueError: The number of requests is negative.
        """
        if num_requests < 0:
            raise ValueError(
                f"Incorrect number of requests specified: {num_requests}. Expected positive integer number"
            )
        if not isinstance(network, IENetwork):
            network = self.read_network(network)
        merged = {**self._config.get(device_name, {}), **(config or {})}
        return ExecutableNetwork(network, device_name, merged, num_requests)

    def import_network(
        self, model_file: str, device_name: str = "CPU", config: Any = None, num_requests: int = 1
    ) -> ExecutableNetwork:
        """Read a network that `ExecutableNetwork.export` wrote."""
        from pathlib import Path

        from irrun.openvino.serialization import unpack_model

        return self.load_network(
            IENetwork(unpack_model(Path(model_file).read_bytes())), device_name, config, num_requests
        )

    def query_network(self, network: IENetwork, device_name: str, config: Any = None) -> dict[str, str]:
        """Return the device of each layer that is supported."""
        from irrun.openvino.core import Core

        return Core().query_model(network._model, device_name)

    def set_config(self, config: Mapping[str, Any], device_name: str) -> None:
        """Set properties of a device."""
        self._config.setdefault(device_name, {}).update(config)

    def get_config(self, device_name: str, config_name: str) -> Any:
        """Return a property of a device."""
        return self._config.get(device_name, {}).get(config_name) or get_metric(device_name, config_name)

    def get_metric(self, device_name: str, metric_name: str) -> Any:
        """Return a property of a device."""
        return get_metric(device_name, metric_name)

    def get_versions(self, device_name: str) -> dict[str, Version]:
        """Return the version of a device by its name."""
        parse_device(device_name)
        return {device_name: Version(VERSION, f"irrun_{device_name.lower()}_plugin")}

    def add_extension(self, extension_path: str, device_name: str) -> None:
        """Do nothing: irrun contains the operations of OpenVINO's extensions for the CPU."""

    def register_plugin(self, plugin_name: str, device_name: str = "") -> None:
        """Do nothing: irrun has no plugins."""

    def unregister_plugin(self, device_name: str) -> None:
        """Do nothing: irrun has no plugins."""


class IEPlugin:
    """A device, as programs before 2019 R2 use it.

    Args:
        device: "CPU".
        plugin_dirs: Folders of plugins, which irrun does not use.
    """

    def __init__(self, device: str, plugin_dirs: Any = None) -> None:
        parse_device(device)
        self.device = device
        self.version = VERSION
        self._config: dict[str, Any] = {}

    def load(self, network: IENetwork, num_requests: int = 1, config: Any = None) -> ExecutableNetwork:
        """Prepare a network for execution."""
        return ExecutableNetwork(network, self.device, {**self._config, **(config or {})}, num_requests)

    def set_config(self, config: Mapping[str, Any]) -> None:
        """Set properties."""
        self._config.update(config)

    def add_cpu_extension(self, extension_path: str) -> None:
        """Do nothing: irrun contains the operations of OpenVINO's extensions for the CPU."""

    def get_supported_layers(self, network: IENetwork) -> set[str]:
        """Return the names of the supported layers."""
        return set(IECore().query_network(network, self.device))
