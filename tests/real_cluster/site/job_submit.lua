-- MareNostrum 5's submit rules as users have met them: an account and a QoS must be named, the QoS picks the
-- partition, a GPU comes with 20 CPUs, memory is not asked for.

local function refuse(text)
  slurm.log_user("%s", text)
  return slurm.ERROR
end

local function gpus_per_node(job)
  local asked = job.tres_per_node or job.gres or ""
  return tonumber(string.match(asked, "gpu:[%a]+:(%d+)") or string.match(asked, "gpu:(%d+)"))
    or (string.match(asked, "gpu") and 1) or 0
end

local function number(value, default)
  if value == nil or value >= 65534 then return default end
  return value
end

function slurm_job_submit(job, partitions, uid)
  if uid == 0 then return slurm.SUCCESS end
  if job.account == nil then return refuse("No account specified, please specify an account") end
  if job.qos == nil then return refuse("No QoS specified, please specify a QoS") end
  -- "Not set" comes as nil or as a number near 2^64; 2^63 is the bit that marks memory per CPU.
  if job.pn_min_memory ~= nil and job.pn_min_memory < 1.8e19 then
    return refuse("Memory cannot be requested (--mem, --mem-per-cpu): it is set automatically per requested core")
  end
  if job.partition == nil then
    if string.match(job.qos, "^acc_") then job.partition = "acc" else job.partition = "gpp" end
  end
  local gpus = gpus_per_node(job)
  if gpus > 0 then
    local nodes = number(job.min_nodes, 1)
    local tasks = number(job.num_tasks, 1)
    local cpus = tasks * number(job.cpus_per_task, 1)
    if cpus < nodes * gpus * 20 then
      return refuse("Minimum cpus requested should be (nodes * gpus/node * 20)")
    end
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
