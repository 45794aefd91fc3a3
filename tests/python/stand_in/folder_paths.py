"""Where ComfyUI keeps models."""

import os
import tempfile

models_dir = tempfile.mkdtemp(prefix="bespoke-comfyui-")
_folders = {}


def add_model_folder_path(folder_name, full_folder_path, is_default=False):
    _folders[folder_name] = [full_folder_path]


def get_folder_paths(folder_name):
    return list(_folders[folder_name])


def get_filename_list(folder_name):
    folder = _folders[folder_name][0]
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def get_full_path(folder_name, filename):
    path = os.path.join(_folders[folder_name][0], filename)
    return path if os.path.isfile(path) else None
