//! Memory that pools share.

use jni::EnvUnowned;
use jni::jni_mangle;
use jni::objects::JClass;
use jni::sys::jlong;
use store::{Budget, Db};

use crate::call::{call, native};
use crate::failure::invalid;
use crate::table::{Kind, keep};

/// A budget, as long as Java has its number. Pools that share it keep it as well.
pub(crate) struct Memory {
    pub(crate) budget: Budget,
}

impl Kind for Memory {
    const NAME: &'static str = "budget";

    fn db(&self) -> Option<&Db> {
        None
    }
}

/// A budget of so many bytes.
#[jni_mangle("io.everleaf.Native")]
pub fn budget_new<'l>(env: EnvUnowned<'l>, _: JClass<'l>, bytes: jlong) -> jlong {
    call(env, 0, |_| {
        let bytes = u64::try_from(bytes).map_err(|_| invalid("the bytes are below 0"))?;
        keep(Memory { budget: Budget::new(bytes) })
    })
}

/// The budget that pools share by default.
#[jni_mangle("io.everleaf.Native")]
pub fn budget_of_process<'l>(env: EnvUnowned<'l>, _: JClass<'l>) -> jlong {
    call(env, 0, |_| keep(Memory { budget: Budget::of_process() }))
}

native! {
    fn budget_bytes(_env, memory: Memory) -> jlong {
        Ok(memory.budget.bytes() as jlong)
    }
}

native! {
    fn budget_used(_env, memory: Memory) -> jlong {
        Ok(memory.budget.used() as jlong)
    }
}

native! {
    fn budget_pools(_env, memory: Memory) -> jlong {
        Ok(memory.budget.pools() as jlong)
    }
}
