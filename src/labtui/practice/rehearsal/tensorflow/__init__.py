"""As much of TensorFlow 2.11 as the lab's scripts use; `model.fit` is rehearsed. Used only inside practice jobs.

What a script asks for beyond it gets an AttributeError that says so, never a silent wrong answer.
"""

import os
import sys
import types

from labtui.practice.rehearse import CLOCK

from . import _model

__version__ = "2.11.0"

SENTENCE = "is not part of the rehearsal; with `labtui practice --train` the training is real."


def _module(name, **content):
    module = types.ModuleType(f"{__name__}.{name}")
    module.__dict__.update(content)

    def missing(attribute):
        raise AttributeError(f"tf.{name}.{attribute} {SENTENCE}")

    module.__getattr__ = missing
    sys.modules[module.__name__] = module
    return module


def __getattr__(name):
    raise AttributeError(f"tf.{name} {SENTENCE}")


# ------------------------------------------------------------------------------------------- devices


class PhysicalDevice:
    def __init__(self, kind, number):
        self.device_type, self.name = kind, f"/physical_device:{kind}:{number}"

    def __repr__(self):
        return f"PhysicalDevice(name='{self.name}', device_type='{self.device_type}')"


def _gpu_numbers():
    """The GPUs this process may see: none without --nv, else those Slurm gave to the job."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [part for part in told.split(",") if part.strip().isdigit()]


def list_physical_devices(device_type=None):
    gpus = [PhysicalDevice("GPU", number) for number in range(len(_gpu_numbers()))]
    devices = [PhysicalDevice("CPU", 0), *gpus]
    return [device for device in devices if device_type in (None, device.device_type)]


class LogicalDeviceConfiguration:
    def __init__(self, *_arguments, **_options):
        pass


def _nothing(*_arguments, **_options):
    return None


_logical = {"cpu": 1}


def set_logical_device_configuration(_device, configurations):
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
    """Replicas and the kind of device they are on."""

    def __init__(self, replicas=1, gpus=None, mirrored=False):
        self.num_replicas_in_sync = replicas
        self.gpus = (1 if _gpu_numbers() else 0) if gpus is None else gpus
        self.mirrored = mirrored

    def scope(self):
        return self

    def __enter__(self):
        _current.append(self)
        return self

    def __exit__(self, *_error):
        _current.pop()


_current = []


def get_strategy():
    return _current[-1] if _current else Strategy()


class MirroredStrategy(Strategy):
    def __init__(self, devices=None, cross_device_ops=None):
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


distribute = _module(
    "distribute",
    MirroredStrategy=MirroredStrategy,
    get_strategy=get_strategy,
    Strategy=Strategy,
    ReductionToOneDevice=_nothing,
    NcclAllReduce=_nothing,
    HierarchicalCopyAllReduce=_nothing,
)


# ---------------------------------------------------------------------------------------------- data


class Dataset:
    """A pipeline of which the number of images, the batch, and repetition are known."""

    def __init__(self, images, batch_size=None, image_size=128, endless=False):
        self._images, self._batch, self._size, self._endless = images, batch_size, image_size, endless

    @staticmethod
    def from_tensor_slices(tensors):
        first = tensors[0] if isinstance(tensors, (tuple, list)) else tensors
        return Dataset(len(first))

    def _same(self, **changes):
        clone = Dataset(self._images, self._batch, self._size, self._endless)
        clone.__dict__.update(
            {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        )
        clone.__dict__.update(changes)
        return clone

    def map(self, function, num_parallel_calls=None, deterministic=None):
        # The size after resizing is read off the function where it is told there; the lab's is 128.
        cells = getattr(function, "__closure__", None) or ()
        names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
        told = dict(zip(names, (cell.cell_contents for cell in cells)))
        return self._same(_size=told.get("image_size", self._size))

    def batch(self, batch_size, drop_remainder=False, **_options):
        images = self._images - self._images % batch_size if drop_remainder else self._images
        return self._same(_batch=int(batch_size), _images=images)

    def repeat(self, count=None):
        return self._same(_endless=True) if count in (None, -1) else self._same(_images=self._images * count)

    def take(self, count):
        return self._same(_images=min(self._images, count * (self._batch or 1)), _endless=False)

    def cache(self, *_arguments):
        return self._same()

    prefetch = shuffle = with_options = cache

    def __len__(self):
        if self._endless:
            raise TypeError("The dataset is infinite.")
        return -(-self._images // (self._batch or 1))

    def cardinality(self):
        return len(self)


class Options:
    def __init__(self):
        self.experimental_distribute = types.SimpleNamespace(auto_shard_policy=None)
        self.threading = types.SimpleNamespace()


data = _module(
    "data",
    Dataset=Dataset,
    AUTOTUNE=-1,
    Options=Options,
    experimental=_module("data.experimental", AUTOTUNE=-1),
)


def _not_computed(*_arguments, **_options):
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

keras = _model.build(_module, get_strategy, ResourceExhaustedError, CLOCK, Dataset)

if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") == "0":
    print(
        "I tensorflow/core/platform/cpu_feature_guard.cc:194] This TensorFlow binary is optimized "
        "with oneAPI Deep Neural "
        "Network Library (oneDNN) to use the following CPU instructions in performance-critical "
        "operations: AVX2 AVX512F FMA",
        file=sys.stderr,
        flush=True,
    )
