"""As much of TensorFlow 2.11 as the lab's scripts use; `model.fit` is rehearsed. Used only inside practice jobs.

What a script asks for beyond it gets an AttributeError that says so, never a silent wrong answer.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any, NoReturn

from labtui.practice.rehearse import CLOCK

from . import _model

__version__ = "2.11.0"
STAMP = "practice: yes (labtui's rehearsal of TensorFlow: nothing was trained)"
print(STAMP, flush=True)

SENTENCE = "is not part of the rehearsal; with `labtui practice --train` the training is real."


def _module(name: str, **content: Any) -> Any:
    module = types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(content)

    def missing(attribute: str) -> NoReturn:
        raise AttributeError(f"tf.{name}.{attribute} {SENTENCE}")

    module.__getattr__ = missing  # type: ignore[method-assign]
    sys.modules[module.__name__] = module
    return module


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"tf.{name} {SENTENCE}")


# ------------------------------------------------------------------------------------------- devices


class PhysicalDevice:
    def __init__(self, kind: str, number: int) -> None:
        self.device_type, self.name = kind, f"/physical_device:{kind}:{number}"

    def __repr__(self) -> str:
        return f"PhysicalDevice(name='{self.name}', device_type='{self.device_type}')"


def _gpu_numbers() -> list[str]:
    """The GPUs this process can use: none without --nv, else those Slurm gave to the job."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [part for part in visible.split(",") if part.strip().isdigit()]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    gpus = [PhysicalDevice("GPU", number) for number in range(len(_gpu_numbers()))]
    devices = [PhysicalDevice("CPU", 0), *gpus]
    return [device for device in devices if device_type in (None, device.device_type)]


class LogicalDeviceConfiguration:
    def __init__(self, *_arguments: object, **_options: object) -> None:
        pass


def _nothing(*_arguments: object, **_options: object) -> None:
    return None


_logical = {"cpu": 1}


def set_logical_device_configuration(_device: object, configurations: list[object]) -> None:
    _logical["cpu"] = len(configurations)


config = _module(
    "config",
    list_physical_devices=list_physical_devices,
    list_logical_devices=list_physical_devices,
    set_visible_devices=_nothing,
    get_visible_devices=list_physical_devices,
    set_logical_device_configuration=set_logical_device_configuration,
    LogicalDeviceConfiguration=LogicalDeviceConfiguration,
    threading=_module(
        "config.threading",
        set_intra_op_parallelism_threads=_nothing,
        set_inter_op_parallelism_threads=_nothing,
    ),
    experimental=_module(
        "config.experimental",
        list_physical_devices=list_physical_devices,
        set_memory_growth=_nothing,
        get_device_details=lambda _device: {"device_name": "NVIDIA H100", "compute_capability": (9, 0)},
    ),
)
test = _module("test", is_built_with_cuda=lambda: True, is_gpu_available=lambda: bool(_gpu_numbers()))


# ------------------------------------------------------------------------------------------ strategy


class Strategy:
    """Replicas and the kind of device they are on; of several workers `gpus` counts those of all."""

    workers = 1

    def __init__(self, replicas: int = 1, gpus: int | None = None, mirrored: bool = False) -> None:
        self.num_replicas_in_sync = replicas
        self.gpus = (1 if _gpu_numbers() else 0) if gpus is None else gpus
        self.mirrored = mirrored

    def scope(self) -> Strategy:
        return self

    def __enter__(self) -> Strategy:
        _current.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        _current.pop()


_current: list[Strategy] = []


def get_strategy() -> Strategy:
    return _current[-1] if _current else Strategy()


class MirroredStrategy(Strategy):
    def __init__(self, devices: list[object] | None = None, cross_device_ops: object = None) -> None:
        seen = len(_gpu_numbers())
        names = [str(name).lower() for name in devices] if devices else []
        on_cpu = any("cpu" in name for name in names) or (not names and not seen)
        wanted = len(names) or max(1, seen)
        if not on_cpu and wanted > seen:
            raise ValueError(
                f"Could not find device {names[-1] if names else '/gpu:0'}: {seen} GPU(s) are visible to TensorFlow."
            )
        if on_cpu:
            print(
                "WARNING:tensorflow:There are non-GPU devices in `tf.distribute.Strategy`, not using nccl allreduce.",
                file=sys.stderr,
                flush=True,
            )
        super().__init__(wanted, 0 if on_cpu else wanted, mirrored=True)


class MultiWorkerMirroredStrategy(Strategy):
    """A process for each worker, each rehearsing the whole training; the workers are those of TF_CONFIG."""

    def __init__(self, cluster_resolver: object = None, communication_options: object = None) -> None:
        config = json.loads(os.environ.get("TF_CONFIG", "{}"))
        hosts: list[str] = config.get("cluster", {}).get("worker", [])
        index = int(config.get("task", {}).get("index", 0))
        here = len(_gpu_numbers())
        self.workers = max(1, len(hosts))
        super().__init__(self.workers * max(1, here), self.workers * here, mirrored=True)
        if not hosts:
            return
        place = f"/job:worker/replica:0/task:{index}"
        devices = tuple(f"{place}/device:GPU:{number}" for number in range(here)) or (
            f"{place}/device:CPU:0",
        )
        distributed = "I tensorflow/tsl/distributed_runtime/coordination/"
        said = [
            "I tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc:447] "
            f"Started server with target: grpc://{hosts[index]}",
            f"{distributed}coordination_service_agent.cc:277] Coordination agent has successfully connected.",
            "INFO:tensorflow:Enabled multi-worker collective ops with available devices: "
            f"{[f'{place}/device:CPU:0', *devices] if here else [*devices]}",
            f"INFO:tensorflow:MultiWorkerMirroredStrategy with cluster_spec = {config['cluster']}, "
            f"task_type = 'worker', task_id = {index}, num_workers = {self.workers}, local_devices = {devices}, "
            "communication_options.implementation = CommunicationImplementation.AUTO",
        ]
        connected = [
            f"{distributed}coordination_service.cc:535] /job:worker/replica:0/task:{number} has connected to "
            f"coordination service. Incarnation: {7919 * (number + 1)}"
            for number in range(self.workers)
        ]
        print("\n".join(said[:1] + (connected if index == 0 else []) + said[1:]), file=sys.stderr, flush=True)


distribute = _module(
    "distribute",
    MirroredStrategy=MirroredStrategy,
    MultiWorkerMirroredStrategy=MultiWorkerMirroredStrategy,
    get_strategy=get_strategy,
    Strategy=Strategy,
    ReductionToOneDevice=_nothing,
    NcclAllReduce=_nothing,
    HierarchicalCopyAllReduce=_nothing,
)


# ---------------------------------------------------------------------------------------------- data


class Dataset:
    """A pipeline of which the number of images, the batch, and repetition are known."""

    def __init__(
        self, images: int, batch_size: int | None = None, image_size: int = 128, endless: bool = False
    ) -> None:
        self._images, self._batch, self._size, self._endless = images, batch_size, image_size, endless

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        first = tensors[0] if isinstance(tensors, (tuple, list)) else tensors
        return Dataset(len(first))

    def _same(self, **changes: Any) -> Dataset:
        clone = Dataset(self._images, self._batch, self._size, self._endless)
        clone.__dict__.update(
            {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        )
        clone.__dict__.update(changes)
        return clone

    def map(self, function: Any, num_parallel_calls: object = None, deterministic: object = None) -> Dataset:
        # A closure over `image_size`, or over `size` in pixels of each side, gives the size after resizing.
        cells = getattr(function, "__closure__", None) or ()
        names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
        closure = dict(zip(names, (cell.cell_contents for cell in cells)))
        size = closure.get("image_size", closure.get("size", self._size))
        return self._same(_size=size[0] if isinstance(size, (tuple, list)) else size)

    def batch(self, batch_size: int, drop_remainder: bool = False, **_options: object) -> Dataset:
        images = self._images - self._images % batch_size if drop_remainder else self._images
        return self._same(_batch=int(batch_size), _images=images)

    def repeat(self, count: int | None = None) -> Dataset:
        if count is None or count == -1:
            return self._same(_endless=True)
        return self._same(_images=self._images * count)

    def take(self, count: int) -> Dataset:
        return self._same(_images=min(self._images, count * (self._batch or 1)), _endless=False)

    def cache(self, *_arguments: object) -> Dataset:
        return self._same()

    prefetch = shuffle = with_options = cache

    def __len__(self) -> int:
        if self._endless:
            raise TypeError("The dataset is infinite.")
        return -(-self._images // (self._batch or 1))

    def cardinality(self) -> int:
        return len(self)


class Options:
    def __init__(self) -> None:
        self.experimental_distribute = types.SimpleNamespace(auto_shard_policy=None)
        self.threading = types.SimpleNamespace()


data = _module(
    "data",
    Dataset=Dataset,
    AUTOTUNE=-1,
    Options=Options,
    experimental=_module(
        "data.experimental",
        AUTOTUNE=-1,
        AutoShardPolicy=types.SimpleNamespace(OFF=-1, AUTO=0, FILE=1, DATA=2, HINT=3),
    ),
)


def _not_computed(*_arguments: object, **_options: object) -> NoReturn:
    raise NotImplementedError(f"Computing on tensors {SENTENCE}")


image = _module("image", resize=_not_computed, per_image_standardization=_not_computed)
transpose = cast = reshape = constant = convert_to_tensor = reduce_mean = _not_computed
float32, float16, uint8, int32, int64 = "float32", "float16", "uint8", "int32", "int64"


# --------------------------------------------------------------------------------------------- errors


class OpError(Exception):
    pass


class ResourceExhaustedError(OpError):
    pass


class InvalidArgumentError(OpError):
    pass


errors = _module(
    "errors",
    OpError=OpError,
    ResourceExhaustedError=ResourceExhaustedError,
    InvalidArgumentError=InvalidArgumentError,
)

if CLOCK is None:
    raise ImportError("The rehearsal of TensorFlow runs only inside practice jobs.")
keras = _model.build(_module, get_strategy, ResourceExhaustedError, CLOCK)

if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") == "0":
    print(
        "I tensorflow/core/platform/cpu_feature_guard.cc:194] This TensorFlow binary is optimized with oneAPI Deep "
        "Neural Network Library (oneDNN) to use the following CPU instructions in performance-critical operations: "
        "AVX2 AVX512F FMA",
        file=sys.stderr,
        flush=True,
    )
