(** Sessions and calls that block. Any number of threads may use one of them; a server's handlers run in threads. *)

module Task : Sapwood.S.TASK with type 'a io := 'a
module Session : Sapwood.S.SESSION with type 'a io = 'a
module Rpc : Sapwood.S.RPC with type 'a io = 'a and type session = Session.t
module Channel : Sapwood.S.CHANNEL with type 'a io := 'a and type session := Session.t
