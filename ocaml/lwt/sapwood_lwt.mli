(** Sessions and calls for programs that use Lwt. *)

module Session : Sapwood.S.SESSION with type 'a io = 'a Lwt.t
module Rpc : Sapwood.S.RPC with type 'a io = 'a Lwt.t and type session = Session.t
