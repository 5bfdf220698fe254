# minprm on the engine's own image: torch, CUDA and vLLM are there, and nothing of them is replaced.
#
#     docker build -t minprm .
#     docker run --gpus all --ipc=host -v "$PWD:/work" minprm train --preset qwen3-0.6b
#
# It was not built and not run yet: nothing of minprm ran on a GPU so far.
FROM vllm/vllm-openai:v0.32.0
COPY . /src
RUN pip install --no-cache-dir "/src[lora]"
WORKDIR /work
VOLUME ["/root/.cache/huggingface"]
ENTRYPOINT ["minprm"]
